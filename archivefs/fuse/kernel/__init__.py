"""The kernel's own FUSE protocol in plain Python: requests are read from the FUSE device and answered there.

protocol.py     numbers and structures
device.py       mounting (root: mount(2); a user: fusermount3) and unmounting
negotiation.py  INIT: what this kernel and this mount can do together
inodes.py       from the kernel's node numbers to nodes, and back
replies.py      attributes and directory entries as bytes
requests.py     one function per kind of request
workers.py      the threads that read and answer, and the watchdog that answers for one that hangs
notify.py       telling the kernel that a living tree has changed
passthrough.py  handing whole files over to the kernel
transport.py    KernelTransport: all of it together
"""
