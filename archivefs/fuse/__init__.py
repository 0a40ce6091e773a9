"""The FUSE front-end: driver, handles, errnos, transports, mounting."""
