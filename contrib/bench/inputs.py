"""The inputs: archives and the same files unpacked, the same bytes on every machine with the same zlib.

Each is written once into a folder of its own and found again by the next run; ``facts.json``, written last,
says that it is complete.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from archivefs.formats.labrador import bitsy
from contrib.bench import crystal_project
from contrib.bench.zipwriter import DEFLATED, STORED, Content, ZipWriter, deflated, plain

EDITION = 2
"""Part of each folder's name; counted up when a writer below changes what it writes."""

NEEDLE = "lighthouse"
"""What ``grep -r`` looks for; no word of the text is equal to it."""

PIECE = 1 << 20


@dataclass(frozen=True)
class Scale:
    """How large the inputs are."""

    files: int = 100_000
    member: int = 1 << 30
    entries: int = 1_000_000
    records: int = 200_000
    lookups: int = 2_000
    revisions: int = 1_000_000
    texts: int = 20_000

    def times(self, factor: float) -> Scale:
        """Everything smaller (or larger) by *factor*; never so small that a case has nothing to do."""
        return Scale(
            files=max(20, int(self.files * factor)),
            member=max(PIECE, int(self.member * factor) // PIECE * PIECE),
            entries=max(40, int(self.entries * factor)),
            records=max(40, int(self.records * factor)),
            lookups=max(10, int(self.lookups * min(1.0, factor))),
            revisions=max(2000, int(self.revisions * factor)),
            texts=max(50, int(self.texts * factor)),
        )


class Input(NamedTuple):
    """One finished input: its folder, with archives and ``unpacked/``, and what is known about it."""

    folder: Path
    facts: dict[str, Any]

    @property
    def unpacked(self) -> Path:
        return self.folder / "unpacked"


Writer = Callable[[Path, Scale], dict[str, Any]]


def prepared(writer: Writer, *, under: Path, scale: Scale, size: int) -> Input:
    """The input of *writer* below *under*: the one that is there, or a new one."""
    folder = _folder(writer, under, size)
    facts = folder / "facts.json"
    if missing(writer, under=under, size=size):
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "unpacked").mkdir(parents=True)
        facts.with_suffix(".part").write_text(json.dumps(writer(folder, scale)))
        facts.with_suffix(".part").rename(facts)
    return Input(folder, json.loads(facts.read_text()))


def missing(writer: Writer, *, under: Path, size: int) -> bool:
    """Is this input still to be written?"""
    return not (_folder(writer, under, size) / "facts.json").exists()


def _folder(writer: Writer, under: Path, size: int) -> Path:
    return under / f"{writer.__name__}-{size}-{EDITION}"


# -- the inputs --


def small(folder: Path, _scale: Scale) -> dict[str, Any]:
    """Three files: nothing but a tool's start is to be seen."""
    with open(folder / "small.zip", "wb") as out, ZipWriter(out) as archive:
        for number in range(3):
            data = text(number, 1000)
            archive.add(f"page{number}.html", deflated(data))
            (folder / "unpacked" / f"page{number}.html").write_bytes(data)
    return {"files": 3}


def files(folder: Path, scale: Scale) -> dict[str, Any]:
    """Files of 1 to 30 KB, a hundred to a folder, deflated in one archive and stored in another.

    One in a hundred has the needle.
    """
    names = [f"section{number // 100:04}/page{number:06}.html" for number in range(scale.files)]
    with (
        open(folder / "files.zip", "wb") as out,
        ZipWriter(out) as archive,
        open(folder / "files-stored.zip", "wb") as out_stored,
        ZipWriter(out_stored) as stored,
        ThreadPoolExecutor(2) as pool,
    ):
        for number, content in enumerate(_packed_pages(pool, scale.files)):
            name, data = names[number], _page(number)
            if number % 100 == 0:
                for zipped in (archive, stored):
                    zipped.add(name[: name.index("/") + 1], plain(b""))
                (folder / "unpacked" / name).parent.mkdir()
            archive.add(name, content)
            stored.add(name, content._replace(stored=data, method=STORED))
            _write(f"{folder}/unpacked/{name}", data)
    return {"files": scale.files}


def _packed_pages(pool: ThreadPoolExecutor, count: int) -> Iterator[Content]:
    for start in range(0, count, 1000):  # no more than so many finished ones wait in memory
        yield from pool.map(lambda number: deflated(_page(number)), range(start, min(start + 1000, count)))


def _page(number: int) -> bytes:
    data = text(number, random.Random(number).randrange(1000, 30_000))
    if number % 100 == 7:
        middle = data.index(b"\n", len(data) // 2) + 1
        data = data[:middle] + f"the {NEEDLE} of page {number}\n".encode() + data[middle:]
    return data


def member(folder: Path, scale: Scale) -> dict[str, Any]:
    """One large file: deflated in one archive, stored in another."""
    count = scale.member // PIECE
    packed_path = folder / "packed.part"
    crc = packed = 0
    with open(packed_path, "wb") as out, open(folder / "unpacked" / "member.txt", "wb") as unpacked:
        for number, stream in enumerate(_packed_pieces(count)):
            data = _piece(number)
            crc = zlib.crc32(data, crc)
            packed += out.write(stream)
            unpacked.write(data)
    sizes = {"crc": crc, "size": count * PIECE}
    with open(folder / "deflated.zip", "wb") as out, ZipWriter(out) as archive:
        archive.add_pieces("member.txt", _blocks(packed_path), method=DEFLATED, packed=packed, **sizes)
    with open(folder / "stored.zip", "wb") as out, ZipWriter(out) as archive:
        blocks = _blocks(folder / "unpacked" / "member.txt")
        archive.add_pieces("member.txt", blocks, method=STORED, packed=count * PIECE, **sizes)
    packed_path.unlink()
    return {"size": count * PIECE, "packed": packed}


def _packed_pieces(count: int) -> Iterator[bytes]:
    """One deflate stream, made of pieces that two threads compress; a flushed piece ends on a byte."""

    def packed(number: int) -> bytes:
        before = _piece(number - 1)[-32768:] if number else b""
        packer = zlib.compressobj(6, zlib.DEFLATED, -15, zdict=before)
        end = zlib.Z_FINISH if number == count - 1 else zlib.Z_SYNC_FLUSH
        return packer.compress(_piece(number)) + packer.flush(end)

    with ThreadPoolExecutor(2) as pool:
        for start in range(0, count, 64):  # no more than so many finished pieces wait in memory
            yield from pool.map(packed, range(start, min(start + 64, count)))


def _piece(number: int) -> bytes:
    return text(number, PIECE)


def _blocks(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while block := file.read(PIECE):
            yield block


def million(folder: Path, scale: Scale) -> dict[str, Any]:
    """Tiny entries: half of them in one folder, the others a thousand to a folder."""
    made = set()
    with open(folder / "million.zip", "wb") as out, ZipWriter(out) as archive:
        for number in range(scale.entries):
            directory = "all" if number < scale.entries // 2 else f"section{number // 1000:05}"
            if directory not in made:
                made.add(directory)
                archive.add(directory + "/", plain(b""))
                (folder / "unpacked" / directory).mkdir()
            name, data = f"{directory}/entry{number:07}.txt", b"entry %d\n" % number
            archive.add(name, plain(data))
            _write(f"{folder}/unpacked/{name}", data)
    return {"entries": scale.entries}


def _write(path: str, data: bytes) -> None:
    """By descriptor: a file object for each of a million files takes twice as long."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    os.write(descriptor, data)
    os.close(descriptor)


def labrador(folder: Path, scale: Scale) -> dict[str, Any]:
    """A website as a Labrador archive: one name in ten needs Bitsy, some files are empty or there twice."""
    records = sorted(_records(scale.records))
    manifest = "".join(f"{record.key} {sha256(record.data).hexdigest()}\n" for record in records)
    with open(folder / "labrador.zip", "wb") as out, ZipWriter(out) as archive:
        archive.add("mimetype", plain(b"application/x-labrador"))
        archive.add("extmime", deflated(b"html text/html; charset=UTF-8\n"))
        archive.add("manifest", deflated(manifest.encode()))
        for record in records:
            if record.stored:
                archive.add("www/" + record.key, deflated(record.data))
    for directory in {os.path.dirname(record.path) for record in records}:
        (folder / "unpacked" / directory).mkdir(parents=True, exist_ok=True)
    for record in records:
        _write(f"{folder}/unpacked/{record.path}", record.data)
    chosen = random.Random(4).sample([record for record in records if record.stored], scale.lookups)
    (folder / "paths.txt").write_text("".join(record.path + "\n" for record in chosen))
    (folder / "members.txt").write_text("".join(f"www/{record.key}\n" for record in chosen))
    return {"records": len(records), "lookups": len(chosen)}


class _Record(NamedTuple):
    key: str
    path: str
    data: bytes
    stored: bool


def _records(count: int) -> Iterator[_Record]:
    for number in range(count):
        folder = f"section{number // 200:04}"
        name = f"Seite Nr. {number}.html" if number % 10 == 3 else f"page{number:06}.html"
        data = b"<title>%d</title>" % number + text(number, 200)
        stored = True
        if number % 20 == 11:  # deeper than the page before it, so that one is stored and this one is not
            folder, stored, data = (
                f"copies/{folder}",
                False,
                b"<title>%d</title>" % (number - 1) + text(number - 1, 200),
            )
        elif number % 100 == 57:
            stored, data = False, b""
        yield _Record(f"{folder}/{bitsy.encode(name)}", f"{folder}/{name}", data, stored)


def crystal(folder: Path, scale: Scale) -> dict[str, Any]:
    """A Crystal project; the pages that have bodies are also there as ordinary files."""
    project = folder / "site.crystalproj"
    crystal_project.written(project, revisions=scale.revisions, texts=scale.texts)
    for number, url in enumerate(crystal_project.text_urls(scale.texts)):
        place = folder / "unpacked" / url.removeprefix(crystal_project.TEXTS)
        if number % crystal_project.TEXTS_PER_FOLDER == 0:
            place.parent.mkdir()
        _write(str(place), crystal_project.text_body(number))
    return {"revisions": scale.revisions, "texts": scale.texts}


# -- text --


def text(number: int, size: int) -> bytes:
    """*size* bytes of lines of words that start with *number*; it compresses about as real text does."""
    head = b"[%d]\n" % number
    pool = _pool()
    start = number * 7919 * 97 % (len(pool) - PIECE)
    return (head + pool[start : start + size - len(head)])[:size]


@lru_cache(maxsize=1)
def _pool() -> bytes:
    """A few million bytes of made-up words, some far more frequent than others."""
    chance = random.Random(1)
    words = ["".join(chance.choices("abdefgilmnoprstu", k=chance.randrange(2, 11))) for _ in range(6000)]
    weights = [1 / (rank + 5) for rank in range(len(words))]
    chosen = chance.choices(words, weights, k=900_000)
    return "\n".join(" ".join(chosen[start : start + 12]) for start in range(0, len(chosen), 12)).encode()
