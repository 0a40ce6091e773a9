"""Hostile zips of our own: one function each, that gives the bytes and what must be seen.

``Case.mount`` says whether it must open: "ok", "refuse", or "either".  ``good`` are members that must read back,
``bad`` ones that must give an error or be missing, ``max_bytes`` bounds what may come out.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import NamedTuple

from tests.zips.forge import DEFLATED, DOS, FOLDER, LINK, LZMA, STORED, Forge, extra_field, local_header, packed

GOOD = b"the good member\n" * 8


class Case(NamedTuple):
    """A hostile zip."""

    data: bytes
    mount: str = "ok"
    good: tuple[str, ...] = ("good.txt",)
    bad: tuple[str, ...] = ()
    max_bytes: int = 64 << 20


CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    """Put it on the list."""
    CASES[make.__name__] = make
    return make


def base(prefix: bytes = b"") -> Forge:
    """A forge with the good member in it."""
    forge = Forge(prefix)
    forge.add("good.txt", GOOD)
    return forge


# -- bombs --


@case
def dense() -> Case:
    forge = base()
    forge.add("zeros", bytes(16 << 20))
    return Case(forge.end(), max_bytes=17 << 20)


@case
def one_body_for_many() -> Case:
    forge = base()
    at = forge.add("f0", bytes(1 << 20))
    for number in range(1, 40):
        forge.add(f"f{number}", bytes(1 << 20), central={"offset": at}, write=False)
    return Case(forge.end(), bad=tuple(f"f{number}" for number in range(1, 40)), max_bytes=2 << 20)


@case
def bodies_that_quote_the_next() -> Case:
    """Each member's stream begins with a stored block that holds the header of the next."""
    names = [b"q%02d" % number for number in range(20)]
    plain, stream, headers = bytes(1 << 19), packed(bytes(1 << 19), DEFLATED), []
    whole = b""
    for name in reversed(names):
        fields = {"need": 20, "flags": 0, "method": DEFLATED, "time": 0, "name": name, "extra": b""}
        header = local_header({**fields, "crc": zlib.crc32(plain), "packed": len(stream), "size": len(plain)})
        headers.append((name, plain, len(stream)))
        whole = header + stream
        quoted = struct.pack("<BHH", 0, len(header), len(header) ^ 0xFFFF)
        plain, stream = header + plain, quoted + whole
    forge = Forge(whole)
    at = 0
    for name, content, length in reversed(headers):
        forge.add(name, content, raw=b"", central={"offset": at, "packed": length}, write=False)
        at += 30 + len(name) + 5
    return Case(forge.end(), good=(), bad=tuple(name.decode() for name in names[:-1]), max_bytes=1 << 20)


@case
def a_dictionary_of_4_gib() -> Case:
    forge = base()
    header = b"\x09\x04\x05\x00" + bytes([93]) + struct.pack("<I", 2**32 - 1)
    forge.add("lzma", b"x" * 100, method=LZMA, raw=header + bytes(64))
    return Case(forge.end(), bad=("lzma",))


@case
def sizes_that_lie() -> Case:
    forge = base()
    data = b"0123456789" * 2000
    for name, size in (("less", 100), ("more", 1 << 30), ("most", 2**32 - 2)):
        forge.add(name, data, central={"size": size})
        forge.add(f"{name}-stored", data, method=STORED, central={"size": size})
    bad = tuple(f"{name}{kind}" for name in ("less", "more", "most") for kind in ("", "-stored"))
    return Case(forge.end(), bad=bad, max_bytes=1 << 20)


@case
def zip64_sizes_that_lie() -> Case:
    forge = base()
    for number, values in enumerate([(1 << 60, 5), (2**64 - 1, 2**64 - 1), (1 << 63, 1 << 63), ()]):
        extra = extra_field(1, struct.pack(f"<{len(values)}Q", *values))
        all_ones = {"size": 2**32 - 1, "packed": 2**32 - 1, "extra": extra}
        forge.add(f"z{number}", b"small", method=STORED, central=all_ones)
    return Case(forge.end(), bad=("z0", "z1", "z2", "z3"), max_bytes=1 << 20)


@case
def twenty_thousand() -> Case:
    forge = base()
    for number in range(20_000):
        forge.add(f"d/{number:05}", b"", method=STORED)
    return Case(forge.end())


# -- names --


@case
def ways_out() -> Case:
    forge = base()
    for name in (
        "../e",
        "../../../../etc/e",
        "a/../../e",
        "..",
        ".",
        "x/..",
        "x/./y",
        "/etc/e",
        "//h/e",
        "",
        "/",
        "//",
    ):
        forge.add(name, b"evil " + name.encode())
    return Case(forge.end())


@case
def ways_out_of_windows() -> Case:
    forge = base()
    for name in ("..\\..\\e", "C:\\Windows\\e", "\\\\host\\share\\e", "dir\\sub\\ok", "C:e"):
        forge.add(name, b"evil", central={"made": DOS})
    return Case(forge.end())


@case
def control_characters() -> Case:
    forge = base()
    odd = (
        "good.txt\0.exe",
        "\0x",
        "line\nbreak",
        "\r",
        "\x1b[2J",
        "\x7f",
        "a\u202eb",
        "\u2028",
        "\ufeffbom",
        " ",
        "-rf",
        "*",
    )
    for name in odd:
        forge.add(name, name.encode())
    return Case(forge.end())


@case
def bytes_that_do_not_decode() -> Case:
    forge = base()
    for name in (b"\xe9\xff", b"\xc0\xaf..\xc0\xafx", b"\xed\xa0\x80", "ž".encode()):
        forge.add(name, b"0")
        forge.add(name + b"flag", b"1", central={"flags": 0x800})
    return Case(forge.end())


@case
def clashes() -> Case:
    forge = base()
    for number in range(3):
        forge.add("twin", b"%d" % number)
    for name in ("pet", "pet/cat", "pet/", "zoo/ape", "zoo", "Case", "case", "twin~2"):
        forge.add(name, name.encode())
    return Case(forge.end(), good=("good.txt", "Case", "case"))


@case
def deep_and_long() -> Case:
    forge = base()
    forge.add("a/" * 2000 + "leaf", b"deep")
    forge.add("n" * 300, b"long")
    forge.add("u" * 255, b"just right")
    return Case(forge.end(), good=("good.txt", "u" * 255))


# -- links and special files --


@case
def links() -> Case:
    forge = base()
    targets = [
        "/etc/passwd",
        "../../etc/passwd",
        "/proc/self/mem",
        "x/../../..",
        "",
        "x" * 5000,
        "good.txt\0/etc",
        "self",
        "..",
    ]
    for number, target in enumerate(targets):
        forge.add(f"l{number}", target.encode(), mode=LINK)
        forge.add(f"deep/er/l{number}", target.encode(), mode=LINK)
    forge.add("dir", b"/tmp", mode=LINK)
    forge.add("dir/evil", b"through the link")
    return Case(forge.end())


@case
def a_link_of_megabytes() -> Case:
    forge = base()
    forge.add("huge", b"x" * (8 << 20), mode=LINK)
    return Case(forge.end(), bad=("huge",), max_bytes=1 << 20)


@case
def special_files() -> Case:
    forge = base()
    for mode in (0o010666, 0o140666, 0o020666, 0o060666, 0o150000, 0o104755, 0o102755, 0):
        forge.add(oct(mode), b"x", mode=mode)
    forge.add("folder-with-data/", b"x", mode=FOLDER)
    return Case(forge.end())


# -- data --


@case
def wrong_crcs() -> Case:
    forge = base()
    for size in (5, 5000, 200_000, 3 << 20):
        forge.add(f"s{size}", b"x" * size, method=STORED, central={"crc": 0xDEADBEEF})
        forge.add(f"d{size}", b"x" * size, central={"crc": 0xDEADBEEF})
    return Case(forge.end(), bad=tuple(f"{kind}{size}" for kind in "sd" for size in (5, 5000, 200_000, 3 << 20)))


@case
def broken_streams() -> Case:
    forge = base()
    data = bytes(number * number >> 3 & 63 for number in range(20_000))
    raw = packed(data, DEFLATED)
    forge.add("cut", data, raw=raw[: len(raw) // 2])
    forge.add("none", data, raw=b"")
    forge.add("noise", data, raw=bytes(number * 7919 >> 4 & 255 for number in range(3000)))
    return Case(forge.end(), bad=("cut", "none", "noise"))


@case
def places_that_lie() -> Case:
    forge = base()
    forge.add("past", b"abc", method=STORED, central={"packed": 1 << 24, "size": 1 << 24})
    forge.add("far", b"abc", method=STORED, central={"offset": 0x7FFFFFFF})
    forge.add("in-the-directory", b"abc", method=STORED, central={"offset": len(forge.out) + 40})
    return Case(forge.end(), bad=("past", "far", "in-the-directory"))


@case
def secrets_and_unknown_methods() -> Case:
    forge = base()
    forge.add("secret", b"x" * 100, method=STORED, raw=bytes(112), central={"flags": 1})
    for method in (1, 6, 97, 98, 99, 255):
        forge.add(f"m{method}", b"x" * 64, method=method)
    return Case(forge.end(), bad=("secret", *(f"m{method}" for method in (1, 6, 97, 98, 99, 255))))


@case
def dates_and_extra_fields() -> Case:
    forge = base()
    for number, when in enumerate((0, 0xFFFFFFFF, 31 << 11, (15 << 5) << 16)):
        forge.add(f"d{number}", b"x", central={"time": when})
    for number, extra in enumerate(
        (b"\1", struct.pack("<HH", 0x5455, 500), struct.pack("<HH", 1, 0xFFFF), b"\1\0\0\0\2")
    ):
        forge.add(f"e{number}", b"x", central={"extra": extra})
    return Case(forge.end(), good=("good.txt", "d0", "d1", "d2", "d3", "e0", "e1", "e2", "e3"))


# -- structure --


@case
def the_count_lies() -> Case:
    return Case(base().end(count=65535))


@case
def everything_lies() -> Case:
    return Case(base().end(size=60, offset=3), mount="either")


@case
def a_zip_in_the_comment() -> Case:
    inner = Forge()
    inner.add("impostor", b"wrong archive")
    return Case(base().end(comment=b"#" * 4096 + inner.end()), mount="either", good=())


@case
def zip64_lies() -> Case:
    return Case(base().end(zip64=True, count64=1 << 62, place64=17), mount="either")


@case
def split() -> Case:
    return Case(base().end(disk=2), mount="either")


@case
def junk_around() -> Case:
    return Case(base(b"#!stub\n" + b"\x90" * 993).end(tail=b"J" * 100))


@case
def cut_off() -> Case:
    forge = base()
    for number in range(50):
        forge.add(f"t{number}", b"x" * 100, method=STORED)
    return Case(forge.end()[:5000], mount="refuse")


@case
def no_zip() -> Case:
    return Case(bytes(number * 7919 >> 4 & 255 for number in range(4096)), mount="refuse")


@case
def nothing() -> Case:
    return Case(b"", mount="refuse")


@case
def no_members() -> Case:
    return Case(Forge().end(), good=())
