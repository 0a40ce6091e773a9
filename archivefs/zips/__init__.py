"""Our zip reader, for every format that needs one."""
