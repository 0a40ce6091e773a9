"""Labrador archives for the tests and for ``make demo``: a small honest writer, and archives that are wrong.

    python tests/samples/labrador.py OUT.lbz     writes a sample site

``write`` takes a dict from URL path to bytes ("/" at the end: the document of that directory).  It encodes names,
chooses primaries and leaves out empty and duplicate files by a naive reading of the format, kept apart from the
package's own, so that tests can compare the two.  ``bad_archives`` gives archives that break one rule each.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from archivefs.formats.labrador.bitsy import BitsyError, decode, encode

MAGIC = b"application/x-labrador"
TIME = (1980, 1, 1, 0, 0, 0)
STORE, DEFLATE = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
TYPES = """\
html text/html; charset=UTF-8
txt text/plain; charset=UTF-8
css text/css
png image/png
gz application/gzip
tar.gz application/x-tgz
"""


class Member(NamedTuple):
    """One member of a zip; a name that ends in "/" is a directory."""

    name: str
    data: bytes
    method: int = DEFLATE


# -- a naive reading of the format --


def digest_of(data: bytes) -> str:
    """SHA-256 in lower-case hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def key_of(url: str, *, index: str = "index.html") -> str:
    """The manifest key of a URL path; *index* is the name of a directory's document."""
    *directories, name = url.removeprefix("/").split("/")
    names = [_escaped(directory) for directory in directories]
    return "/".join([*names, _escaped(name) if name else index])


def _escaped(name: str) -> str:
    encoded = encode(name)
    return f"xq--index-x.{encoded[6:]}" if encoded.startswith("index.") else encoded


def normalization(name: str) -> str | None:
    """The encoded normalization of one component, step by step as the format has it; None where there is none."""
    name = "".join(chr(ord(letter) + 32) if "A" <= letter <= "Z" else letter for letter in name)
    if name[:12] == "xq--index-x.":
        return name
    if name[:6] == "index.":
        name = "index.i"
    try:
        return encode(decode(name))
    except BitsyError:
        return None


def path_normalization(key: str) -> str:
    """The encoded normalization of a path, or the lower-cased path."""
    names = [normalization(name) for name in key.split("/")]
    return key.lower() if None in names else "/".join(str(name) for name in names)


def primary_of(keys: Collection[str]) -> str:
    """The primary copy among keys that share a digest: three times those are dropped that are not the least."""
    left = [(path_normalization(key), key.lower(), key) for key in keys]
    fewest = min(normal.count("/") for normal, _, _ in left)
    left = [entry for entry in left if entry[0].count("/") == fewest]
    shortest = min(len(normal) for normal, _, _ in left)
    left = [entry for entry in left if len(entry[0]) == shortest]
    return sorted(left)[0][2]


# -- writing --


def members_of(
    pages: Mapping[str, bytes],
    *,
    index: str = "index.html",
    types: str = TYPES,
    external: Collection[str] = (),
) -> list[Member]:
    """The members of an archive of *pages* by URL path; the content of those in *external* is left out."""
    keys = {key_of(url, index=index): url for url in pages}
    copies: dict[bytes, list[str]] = {}
    for key, url in keys.items():
        copies.setdefault(pages[url], []).append(key)
    stored = {primary_of(same) for data, same in copies.items() if data}
    site = [
        Member(f"www/{key}", pages[url], STORE if key.endswith(".png") else DEFLATE)
        for key, url in sorted(keys.items())
        if key in stored and url not in external
    ]
    manifest = "".join(f"{key} {digest_of(pages[url])}\n" for key, url in sorted(keys.items()))
    return [*head(manifest, types), *(site or [Member("www/", b"")])]


def head(manifest: str, types: str = TYPES) -> list[Member]:
    """The three special files."""
    return [
        Member("mimetype", MAGIC, STORE),
        Member("extmime", types.encode()),
        Member("manifest", manifest.encode()),
    ]


def with_keys(contents: Mapping[str, bytes], *, absent: Mapping[str, bytes] | None = None) -> list[Member]:
    """An archive with these very keys and contents stored, and records for *absent* ones."""
    records = {**contents, **(absent or {})}
    manifest = "".join(f"{key} {digest_of(data)}\n" for key, data in records.items())
    return [*head(manifest), Member("www/", b""), *(Member(f"www/{key}", data) for key, data in contents.items())]


def pack(members: list[Member]) -> bytes:
    """The zip of *members*."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data, method in members:
            info = zipfile.ZipInfo(name, TIME)
            info.external_attr = (0o040755 if name.endswith("/") else 0o100644) << 16
            info.compress_type = STORE if name.endswith("/") else method
            archive.writestr(info, data)
    return out.getvalue()


def write(path: Path, pages: Mapping[str, bytes], *, external: Collection[str] = ()) -> Path:
    """A valid archive of *pages* by URL path."""
    path.write_bytes(pack(members_of(pages, external=external)))
    return path


def write_many(path: Path, count: int) -> Path:
    """A valid archive of *count* records, the thousandth of them a copy of the one before; names of several kinds."""
    pages = dict(many_pages(count))
    return write(path, pages)


def many_pages(count: int) -> Iterator[tuple[str, bytes]]:
    """Pages in folders of a hundred, a tenth of them with names that must be encoded."""
    for number in range(count):
        folder = f"/section-{number // 10_000}/part-{number // 100 % 100:02}"
        name = f"Seite {number} für alle.html" if number % 10 == 0 else f"page-{number:06}.html"
        copy_of = number - 1 if number % 1000 == 999 else number
        yield f"{folder}/{name}", f"<p>This is page {copy_of}.\n".encode()


# -- archives that are wrong --


def base() -> dict[str, bytes]:
    """What the wrong archives have beside what is wrong."""
    return {"index.html": b"<p>Base\n", "a/one.txt": b"one\n"}


def bad_archives() -> Iterator[tuple[str, str, bytes]]:
    """Code of the one rule that is broken, what is special about it, and the archive."""
    yield from _bad_containers()
    yield from _bad_members()
    yield from _bad_texts()
    yield from _bad_keys()
    yield from _bad_pairs()
    yield from _bad_contents()


def _changed(change: Callable[[list[Member]], list[Member]]) -> bytes:
    return pack(change(with_keys(base())))


def _plus(*extra: Member) -> bytes:
    return pack([*with_keys(base()), *extra])


def _bad_containers() -> Iterator[tuple[str, str, bytes]]:
    yield "zip-unreadable", "no zip", b"mimetype" + MAGIC + bytes(100)
    yield "zip-unreadable", "cut off", pack(with_keys(base()))[:-60]
    for what, value in (("newline", MAGIC + b"\n"), ("case", MAGIC.upper()), ("empty", b"")):
        yield "mimetype-value", what, _changed(lambda all, value=value: [Member("mimetype", value, STORE), *all[1:]])
    yield "mimetype-compressed", "", _changed(lambda all: [Member("mimetype", MAGIC, DEFLATE), *all[1:]])
    yield "file-order", "manifest second", _changed(lambda all: [all[0], all[2], all[1], *all[3:]])
    yield "file-order", "mimetype last", _changed(lambda all: [*all[1:], all[0]])
    yield "file-order", "a folder before mimetype", _changed(lambda all: [all[3], *all[:3], *all[4:]])
    yield "file-order", "a file of the site before manifest", _changed(lambda all: [*all[:2], all[4], all[2], *all[5:]])
    yield "file-order", "in the file only", moved_in_file(pack(with_keys(base())))
    yield "missing-file", "mimetype", _changed(lambda all: all[1:])
    yield "missing-file", "extmime", _changed(lambda all: [all[0], *all[2:]])
    yield "missing-file", "manifest", _changed(lambda all: [*all[:2], *all[3:]])
    yield "www-missing", "", pack(head(""))
    yield "www-extra-directory", "", _plus(Member("www/nothing/", b""))
    yield (
        "www-extra-directory",
        "of a suppressed file",
        pack([*with_keys(base(), absent={"e/f": b""}), Member("www/e/", b"")]),
    )


def _bad_members() -> Iterator[tuple[str, str, bytes]]:
    paths = (
        "../up.txt",
        "/etc/passwd",
        "C:/x.txt",
        "a\\b",
        "www/a/../up.txt",
        "www/./a/one.txt",
        "www//a/one.txt",
        "x//",
    )
    for path in paths:
        yield "zip-unsafe-path", path, _plus(Member(path, b"x"))
    yield "zip-unsafe-path", "NUL", _plus(Member("www/aXb", b"x")).replace(b"www/aXb", b"www/a\0b")
    yield "zip-duplicate-member", "", _plus(Member("WWW/A/ONE.TXT", b"another one\n"))
    yield "zip-duplicate-member", "mimetype", _changed(lambda all: [all[0], Member("MIMETYPE", b"x", STORE), *all[1:]])
    yield "zip-corrupt", "", damaged(pack(with_keys(base())), "www/a/one.txt")
    yield "zip-corrupt", "extmime", damaged(pack(with_keys(base())), "extmime")
    yield "zip-unsupported", "encrypted", patched(pack(with_keys(base())), "www/a/one.txt", flags=1)
    yield "zip-unsupported", "method", patched(pack(with_keys(base())), "www/a/one.txt", method=12)
    yield "www-unlisted", "", _plus(Member("www/stray.txt", b"stray\n"))


def _bad_texts() -> Iterator[tuple[str, str, bytes]]:
    lines = "".join(f"{key} {digest_of(data)}\n" for key, data in base().items())
    site = with_keys(base())[3:]

    def archive(*, manifest: str = lines, types: str = TYPES) -> bytes:
        return pack([*head(manifest, types), *site])

    wrong = (
        "xml",
        "xml\tapplication/xml",
        "xml a\rb",
        "xml a\r\r",
        "\ufeffxml a",
        "xml ä",
        "xml a\0",
        "xml \x7f",
        "\r\r",
    )
    for line in wrong:
        yield "kv-syntax", f"extmime {line!a}", archive(types=f"{TYPES}{line}\n")
        yield "kv-syntax", f"manifest {line!a}", archive(manifest=f"{line}\n{lines}")
    yield "kv-syntax", "CR at the end", archive(types=TYPES + "xml application/xml\r")
    for key in ("XML", ".xml", "xml.", "a..b", "a-.b", "x/y", "é".encode().hex() + "*"):
        yield "extmime-key", key, archive(types=f"{TYPES}{key} application/xml\n")
    for key in ("png", ".", "-"):
        yield (
            "extmime-duplicate-key",
            key,
            archive(types=f"{TYPES}{key} x/y\n{key} x/y\n" if key != "png" else f"{TYPES}png x/y\n"),
        )
    good = digest_of(b"b\n")
    for digest in (good[:-1], good + "0", good[:-1] + "g", good[:31] + " " + good[32:], "x"):
        yield "digest-format", digest, pack([*head(f"{lines}b.txt {digest}\n"), *site, Member("www/b.txt", b"b\n")])


def _bad_keys() -> Iterator[tuple[str, str, bytes]]:
    strange = "xz--" + encode_without_check("\u0344" * 120)
    wrong = {
        "key-strictname": [
            "b-.txt",
            "con.txt",
            "-b",
            "b.",
            "b..c",
            "a//b.txt",
            "b*c",
            "b/",
            "/b",
            "x" * 256,
            "d/index.",
        ],
        "key-bitsy": ["xz--zz.txt", "xq--foo", "xz--aa", "a/xz--yx5xt/b"],
        "key-dot-name": ["a/../b.txt", "./b", "a/xz--a3ab/b", "xz--a3", "d/.."],
        "key-directory-index": ["a/Index.d/b.txt"],
        "key-too-long": [("d" * 127 + "/") * 7 + "f" * 128],
        "key-normalize": [strange, f"d/{strange}/e"],
    }
    for code, keys in wrong.items():
        for key in keys:
            yield code, key[:40], pack(with_keys(base(), absent={key: b"something else\n"}))


def _bad_pairs() -> Iterator[tuple[str, str, bytes]]:
    pairs = {
        "file-uniqueness": [
            ("xz--gq", "xz---gq"),
            ("d/index.html", "d/INDEX.txt"),
            ("b.txt", "B.TXT"),
            ("d/xz--index-aa.i", "d/index.html"),
            ("xq--foo-x", "foo"),
        ],
        "directory-uniqueness": [("b", "b/c"), ("xz--gq", "xz---gq/x"), ("d/e/f", "d/E")],
        "decoded-collision": [
            ("d/xq--index-x.html", "d/xz--index-aa.html"),
            ("d/xq--index-x.html/x", "d/xz--index-aa.html"),
            ("d/xq--index-x.html", "d/xz--index-aa.html/x/y"),
            ("xq--index-x.d/index.html", "xz--index-aa.d/index.html"),
        ],
    }
    for code, all_pairs in pairs.items():
        for one, two in all_pairs:
            lines = f"{one} {digest_of(b'1')}\n{two} {digest_of(b'2')}\n"
            yield code, f"{one} {two}", pack([*head(lines), Member("www/", b"")])
    lines = f"b {digest_of(b'1')}\n" * 2
    yield "file-uniqueness", "the same line twice", pack([*head(lines), Member("www/", b"")])


def _bad_contents() -> Iterator[tuple[str, str, bytes]]:
    yield "stored-empty", "", pack(with_keys({**base(), "zero.txt": b""}))
    yield "stored-empty", "two of them", pack(with_keys({**base(), "zero.txt": b"", "b/zero.txt": b""}))
    yield "stored-secondary", "", pack(with_keys({**base(), "b/two.txt": b"same\n", "b/three.txt": b"same\n"}))
    yield "stored-secondary", "primary absent", pack(with_keys({**base(), "b/two": b"x"}, absent={"b/1": b"x"}))
    wrong = with_keys({**base(), "b.txt": b"promised\n"})
    yield "digest-mismatch", "", pack([*wrong[:-1], Member("www/b.txt", b"tampered\n")])


def encode_without_check(text: str) -> str:
    """FlexDelta text for a name of one character again and again, which no encoder would write."""
    count, first = len(text), ord(text[0]) - 1
    assert 432 <= first < 7776, "three digits"
    digits = "abcdefghijklmnopqrstuvwxyz0123456789"
    word = digits[12 + first // 36**2] + digits[first // 36 % 36] + digits[first % 36]
    return word + "ab" * (count - 1)


def damaged(data: bytes, name: str) -> bytes:
    """The archive with the last byte of a member's data turned over."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        info = archive.getinfo(name)
    end = info.header_offset + 30 + len(info.filename) + info.compress_size
    return data[: end - 1] + bytes([data[end - 1] ^ 1]) + data[end:]


def patched(data: bytes, name: str, *, flags: int = 0, method: int = DEFLATE) -> bytes:
    """The archive with other flags and another method for a member, in both of its headers."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        local = archive.getinfo(name).header_offset
    central = data.rindex(name.encode()) - 46
    changed = bytearray(data)
    struct.pack_into("<HH", changed, local + 6, flags, method)
    struct.pack_into("<HH", changed, central + 8, flags, method)
    return bytes(changed)


def moved_in_file(data: bytes) -> bytes:
    """The archive with extmime and manifest exchanged in the file, but not in its directory."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        one, two, three = (info.header_offset for info in archive.infolist()[1:4])
    directory = data.rindex(b"PK\x01\x02mimetype"[:4], 0, data.rindex(b"mimetype"))
    first, second, rest = data[one:two], data[two:three], bytearray(data[directory:])
    for name, offset in ((b"extmime", one + len(second)), (b"manifest", one)):
        struct.pack_into("<I", rest, rest.index(name) - 4, offset)
    return data[:one] + second + first + data[three:directory] + bytes(rest)


# -- the sample site --


def picture() -> bytes:
    """A small PNG: waves."""
    width, height = 48, 32
    rows = b"".join(
        b"\0" + b"".join(b"\x1f\x6f\xa8" if (x + y) % 16 < 8 else b"\xe8\xf4\xfa" for x in range(width))
        for y in range(height)
    )
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    ]
    body = b"".join(struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks)
    return b"\x89PNG\r\n\x1a\n" + body


def page(title: str, text: str = "") -> bytes:
    """A page of the sample site."""
    style = "<link rel=stylesheet href=/style.css>"
    return f"<!doctype html>\n<title>{title}</title>{style}\n<h1>{title}</h1>\n<p>{text or title}.\n".encode()


SITE: dict[str, bytes] = {
    "/": page("The island", "Ferries, walks and weather, kept for those who come after"),
    "/style.css": b"body { max-width: 40em; margin: auto }\nh1 { color: #046 }\n",
    "/README.TXT": b"A copy of the island's site, made before its server was switched off.\n",
    "/images/": page("Pictures", "There is one"),
    "/images/waves.png": picture(),
    "/ferries/": page("Ferries", "Two boats, when the wind allows"),
    "/ferries/summer.html": page("Summer timetable", "08:00, 12:00 and 17:30"),
    "/ferries/winter.html": page("Winter timetable", "10:00, and back at 14:00"),
    "/ferries/archive/": page("Old timetables"),
    "/ferries/archive/2019.html": page("Timetable of 2019", "09:00 and 16:00"),
    "/ferries/archive/2020.html": b"",
    "/walks/": page("Walks", "Good shoes are needed"),
    "/walks/north.html": page("To the north cape", "Two hours along the cliff"),
    "/walks/mühle.html": page("To the old mill", "Half an hour, with a view"),
    "/walks/waves.png": picture(),
    "/people/": page("People"),
    "/people/keeper.html": page("The keeper of the light", "She has been here for thirty years"),
}
"""About a dozen pages; one is empty, the picture is there twice, and two names must be encoded."""


UPDATE: dict[str, bytes] = {
    **SITE,
    "/": page("The island", "Ferries, walks and weather; now with a new boat"),
    "/ferries/new-boat.html": page("The new boat", "It has a name, and room for bicycles"),
}
"""The site a year later."""


def write_update(path: Path) -> Path:
    """The later site, without the content that the earlier archive has."""
    return write(path, UPDATE, external=[url for url, data in UPDATE.items() if SITE.get(url) == data])


def main() -> None:
    """Write the sample site where the command line says."""
    parser = argparse.ArgumentParser(description="Write a sample site as a Labrador archive.")
    parser.add_argument("--update", action="store_true", help="the later site, without what the first archive has")
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    if arguments.update:
        write_update(arguments.out)
    else:
        write(arguments.out, SITE)


if __name__ == "__main__":
    main()
