"""MemberStream: the content of one member in order, checked on the way.

Used by ``members.py``.  A stream belongs to one thread at a time; a copy of it is independent.
"""

from __future__ import annotations

from archivefs.errors import ArchiveError, CorruptMember
from archivefs.zips.codecs import Decoder, Packed, Point, open_decoder
from archivefs.zips.directory import Place, ZipDirectory
from archivefs.zips.inflating import crc32

_LZMA_END_MARKED = 2


class MemberStream:
    """The plain bytes of member *i*, never more than declared; the last come only when size and CRC are right."""

    __slots__ = ("_decoder", "_directory", "_i", "_place", "crc", "position")

    def __init__(
        self,
        directory: ZipDirectory,
        i: int,
        place: Place | None = None,
        *,
        decoder: Decoder | None = None,
        position: int = 0,
        crc: int = 0,
    ) -> None:
        """*decoder*, if given, stands at *position*; *crc* is that of everything before."""
        self._directory = directory
        self._i = i
        self._place = place = place or directory.locate(i)
        self.position = position
        self.crc = crc
        try:
            self._decoder = decoder or self._decoder_from_beginning()
            if place.size == 0:
                self._check_end()
        except ArchiveError as error:
            raise self._named(error) from error

    def _decoder_from_beginning(self) -> Decoder:
        place = self._place
        packed = Packed(self._directory.source, place.start, place.start + place.packed)
        ends_marked = bool(place.flags & _LZMA_END_MARKED)
        return open_decoder(place.method, packed, size=place.size, ends_marked=ends_marked)

    @property
    def weight(self) -> int:
        """What a copy takes in memory; 0 if there can be none."""
        return self._decoder.weight

    def read(self, limit: int) -> bytes:
        """The next bytes, at most *limit*; nothing at the end.  Raises CorruptMember."""
        size = self._place.size
        if self.position == size:
            return b""
        try:
            piece = self._decoder.read(min(limit, size - self.position))
            if not piece:
                raise CorruptMember(f"its data end after {self.position} of {size} bytes", code="zip-size")
            self.crc = crc32(piece, self.crc)
            self.position += len(piece)
            if self.position == size:
                self._check_end()
        except ArchiveError as error:
            raise self._named(error) from error
        return piece

    def copy(self) -> MemberStream | None:
        """An independent stream at the same place, where the method allows it."""
        decoder = self._decoder.copy()
        if decoder is None:
            return None
        return MemberStream(
            self._directory, self._i, self._place, decoder=decoder, position=self.position, crc=self.crc
        )

    def point(self) -> Point | None:
        """Where its decoder stands, if that is to be noted now."""
        return self._decoder.point()

    def _check_end(self) -> None:
        if self._decoder.read(1):
            raise CorruptMember(f"its data go on after the {self.position} bytes declared", code="zip-size")
        if self.crc != self._place.crc:
            raise CorruptMember("its CRC is wrong", code="zip-crc")
        self._directory.mark_verified(self._i)

    def _named(self, error: ArchiveError) -> ArchiveError:
        """The same error, saying which member it is about; SourceChanged where that is the reason."""
        if error.member:
            return error
        directory = self._directory
        try:
            directory.source.watch(now=True)
        except ArchiveError as reason:
            error = reason
        return type(error)(
            error.problem, archive=directory.path, member=directory.name(self._i), advice=error.advice, code=error.code
        )
