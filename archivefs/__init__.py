"""archivefs: archives of websites as ordinary folders."""

__version__ = "0.1.0"
