"""What every writable format shares: a staging area that survives a crash, locks, atomic replacement, an overlay.

* ``locks.py``    one writer an archive; a lock that dies with its process
* ``journal.py``  records with checksums, appended and made durable
* ``area.py``     the staging folder: lock, journal, numbered bodies
* ``replace.py``  a file replaced whole or not at all
* ``durable.py``  fsync of files and folders, in one place so that a test can watch their order
* ``overlay.py``  changes on top of a tree that is only read
"""
