"""What is made of archives: views, indexes and differences, kept for as long as they are right.

A product is made once, into memory while it is small and into a file without a name when it grows; its size is exact.
It is kept under a key that says what it was made of, the least used ones going first.  Any thread may ask; two that
ask for the same product wait for one another, others do not.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable

from archivefs.readers import BytesReader, ExtentReader
from archivefs.tree import Extent, Reader

MEMORY_BYTES = 1 << 20
"""A larger product goes to a file."""
MAX_KEPT_IN_MEMORY = 32 << 20
MAX_KEPT_ON_DISK = 1 << 30
MAX_KEPT = 10_000
MAX_FILES = 64
_BATCH = 1 << 16

Make = Callable[["Product"], object]


class Product:
    """Bytes that are being made, and then read; ``write`` belongs to the one thread that makes it."""

    def __init__(self) -> None:
        self.size = 0
        self._pieces: list[bytes] = []
        self._waiting = 0
        self._fd = -1

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def write(self, data: bytes) -> None:
        """Add to it."""
        self._pieces.append(data)
        self._waiting += len(data)
        self.size += len(data)
        if self.size > MEMORY_BYTES and (self._fd < 0 or self._waiting > _BATCH * 4):
            self._to_file()

    def write_text(self, text: str) -> None:
        """Add text; what no UTF-8 can hold becomes a question mark."""
        self.write(text.encode("utf-8", "replace"))

    def done(self) -> Product:
        """Nothing more is written."""
        if self._fd >= 0:
            self._to_file()
        else:
            self._pieces = [b"".join(self._pieces)]
        return self

    @property
    def on_disk(self) -> bool:
        """Is it in a file?"""
        return self._fd >= 0

    def open(self, *, mtime_ns: int = 0, version: int = 0) -> Reader:
        """A reader of its own, good also when the product is no longer kept."""
        if self._fd < 0:
            return BytesReader(self._pieces[0], mtime_ns=mtime_ns, version=version)
        extent = Extent(os.dup(self._fd), 0, self.size)
        return ExtentReader(extent, mtime_ns=mtime_ns, version=version, owned=True)

    def pieces(self) -> Iterable[bytes]:
        """The bytes in order."""
        reader = self.open()
        try:
            for offset in range(0, self.size, _BATCH):
                yield reader.read_at(offset, _BATCH)
        finally:
            reader.close()

    def whole(self) -> bytes:
        """All of it at once."""
        return b"".join(self.pieces())

    def _to_file(self) -> None:
        if self._fd < 0:
            with tempfile.TemporaryFile(prefix="archivefs-") as file:
                self._fd = os.dup(file.fileno())
        view = memoryview(b"".join(self._pieces))
        while view:
            view = view[os.write(self._fd, view) :]
        self._pieces = []
        self._waiting = 0


def made(make: Make) -> Product:
    """A product that is not kept."""
    product = Product()
    make(product)
    return product.done()


class Products:
    """The products of one tree."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Product] = OrderedDict()
        self._making: dict[Hashable, threading.Lock] = {}
        self._in_memory = self._on_disk = self._files = 0

    def get(self, key: Hashable, make: Make) -> Product:
        """The product under *key*, made by *make* if it is not there; raises what that raises, and keeps nothing."""
        found = self._find(key)
        if found is not None:
            return found
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:
            found = self._find(key)
            if found is None:
                try:
                    found = made(make)
                    self._keep(key, found)
                finally:
                    with self._lock:
                        self._making.pop(key, None)
        return found

    def clear(self) -> None:
        """Drop everything; readers stay good."""
        with self._lock:
            self._kept.clear()
            self._in_memory = self._on_disk = self._files = 0

    def _find(self, key: Hashable) -> Product | None:
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def _keep(self, key: Hashable, product: Product) -> None:
        with self._lock:
            self._kept[key] = product
            self._count(product, 1)
            while len(self._kept) > 1 and self._too_much():
                self._count(self._kept.popitem(last=False)[1], -1)

    def _count(self, product: Product, sign: int) -> None:
        if product.on_disk:
            self._on_disk += sign * product.size
            self._files += sign
        else:
            self._in_memory += sign * product.size

    def _too_much(self) -> bool:
        return (
            self._in_memory > MAX_KEPT_IN_MEMORY
            or self._on_disk > MAX_KEPT_ON_DISK
            or self._files > MAX_FILES
            or len(self._kept) > MAX_KEPT
        )
