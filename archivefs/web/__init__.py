"""HTTP: the server that runs what formats offer."""
