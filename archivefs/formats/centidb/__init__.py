"""The format centidb: stores of the Python library of that name, later called acid."""
