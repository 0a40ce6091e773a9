"""The kernel's own FUSE protocol in plain Python: requests are read from the FUSE device and answered there.

protocol.py     numbers and structures
device.py       mounting (root: mount(2); a user: fusermount3) and unmounting
negotiation.py  INIT: what this kernel and this mount can do together
inodes.py       from the kernel's node numbers to nodes, and back
replies.py      attributes and directory entries as bytes
calls.py        one request under way
requests.py     one function per kind of request that only looks
changing.py     and one per kind that changes something
workers.py      the threads that read and answer
watchdog.py     answers for one that hangs
notify.py       telling the kernel that a living tree has changed
pruning.py      asking the kernel to forget names, so that ours are few
passthrough.py  handing whole files over to the kernel
transport.py    KernelTransport: all of it together
"""
