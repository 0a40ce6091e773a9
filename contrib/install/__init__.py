"""What ``make install-system`` and ``make uninstall-system`` do.

python -m contrib.install [--uninstall] [--destdir DIR] [--prefix DIR] [--sbin DIR]

Everything is made in a folder of its own first (``building.py``: the program; ``extras.py``: what the system wants to
know of it), then put in place, with a list of what was put (``placing.py``).  To uninstall is to take away what is in
the list, for which no more than Python is needed.
"""
