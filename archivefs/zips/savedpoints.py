"""SavedPoints: places in a large deflated member where reading can begin, kept between mounts.

Used by ``members.py`` in place of ``checkpoints.py`` where there is an index.  They are noted while the member is
read from its beginning, at most one in each stretch of ``spacing`` bytes, and lie in a file of the index: they take
no memory, and the next mount finds them.  A point has everything that decides what is read from there, and the CRC
so far, so that the CRC of the whole is still checked at the end.
"""

from __future__ import annotations

import struct

from archivefs.readers import Stream
from archivefs.zips import zran
from archivefs.zips.codecs import Packed, Point
from archivefs.zips.directory import Place, ZipDirectory
from archivefs.zips.records import Records
from archivefs.zips.streams import MemberStream

MIN_SPACING = 1 << 20
MAX_POINTS = 4096
"""In one member: 128 MiB."""

_POINT = struct.Struct("<QIBxH")
"""Place in the archive, CRC of what is before, bits, length of the window."""


class SavedPoints:
    """The points of member *i*, and the streams that begin at them."""

    def __init__(self, directory: ZipDirectory, i: int, place: Place, records: Records) -> None:
        self._directory = directory
        self._i = i
        self._place = place
        self._records = records
        self._spacing = spacing_for(place.size)

    @classmethod
    def of(cls, directory: ZipDirectory, i: int, place: Place) -> SavedPoints | None:
        """None if none can be kept: no index, or no library."""
        index = directory.index
        if index is None or not index.writable() or not zran.available():
            return None
        about = [*place[:4], spacing_for(place.size)]
        records = Records(index, f"points-{place.start:x}", about=about, size=_POINT.size + zran.WINDOW)
        return cls(directory, i, place, records)

    def begin(self) -> MemberStream:
        """The member from its beginning."""
        return MemberStream(self._directory, self._i, self._place, decoder=zran.Inflate(self._packed(), self._spacing))

    def keep(self, stream: Stream) -> None:
        """Note where *stream* stands if a point is due."""
        if isinstance(stream, MemberStream) and (point := stream.point()):
            head = _POINT.pack(point.packed, stream.crc, point.bits, len(point.window))
            self._records.add(stream.position, head + point.window)

    def nearest(self, offset: int) -> MemberStream | None:
        """A stream that stands at *offset* or as little before it as can be; None: begin at the beginning."""
        found = self._records.last_before(offset)
        if found is None:
            return None
        position, content = found
        packed, crc, bits, length = _POINT.unpack_from(content)
        point = Point(packed, bits, content[_POINT.size : _POINT.size + length])
        decoder = zran.Inflate(self._packed(), self._spacing, point)
        return MemberStream(self._directory, self._i, self._place, decoder=decoder, position=position, crc=crc)

    def close(self) -> None:
        """To be called once, when the member is closed."""
        self._records.close()

    def _packed(self) -> Packed:
        return Packed(self._directory.source, self._place.start, self._place.start + self._place.packed)


def spacing_for(size: int) -> int:
    """How far apart the points of a member of *size* bytes are, at least."""
    return max(MIN_SPACING, -(-size // MAX_POINTS))
