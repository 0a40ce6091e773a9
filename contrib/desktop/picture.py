"""A picture of what Xvfb shows, as a PNG: from the file that it keeps of its screen (-fbdir), in the format of xwd.

python contrib/desktop/picture.py SCREEN PICTURE    waits until the screen no longer changes, and writes the picture
"""

from __future__ import annotations

import struct
import sys
import time
import zlib
from pathlib import Path

FIELDS = 25
"""How many numbers an XWD begins with: 0 the size of the header, 4 width, 5 height, 12 bytes a line, 19 colours."""
COLOUR_BYTES = 12
QUIET_S = 1.0
LIMIT_S = 8.0


def png(screen: bytes) -> bytes:
    """The PNG of an XWD with 32 bits a pixel, blue first."""
    header = struct.unpack_from(f">{FIELDS}I", screen)
    width, height, line = header[4], header[5], header[12]
    start = header[0] + COLOUR_BYTES * header[19]
    rows = (screen[start + line * row :][: 4 * width] for row in range(height))
    data = b"".join(b"\0" + _rgb(row) for row in rows)
    about = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", about), (b"IDAT", zlib.compress(data)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, body) for kind, body in chunks)


def _rgb(row: bytes) -> bytes:
    colours = bytearray(len(row) // 4 * 3)
    for place in range(3):
        colours[place::3] = row[2 - place :: 4]
    return bytes(colours)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def settled(path: Path) -> bytes:
    """The screen once it has not changed for a while; as it is then, if it never stops."""
    end = time.monotonic() + LIMIT_S
    screen, since = path.read_bytes(), time.monotonic()
    while time.monotonic() < min(end, since + QUIET_S):
        time.sleep(0.1)
        now = path.read_bytes()
        if now != screen:
            screen, since = now, time.monotonic()
    return screen


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(png(settled(Path(sys.argv[1]))))
