"""A small website, and the archives of it that the README and ``make demo`` show.

python -m tests.samples.site FOLDER        writes them into FOLDER and prints their names
"""

from __future__ import annotations

import argparse
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePath

from tests.samples import centidb, crawls, crystal, labrador

TIME = (2024, 5, 17, 12, 30, 0)

INDEX = """<!doctype html>
<title>Harbour news</title>
<link rel="stylesheet" href="style.css">
<h1>Harbour news</h1>
<ul>
<li><a href="news/2024/storm.html">The storm of the year</a>
<li><a href="news/2024/lighthouse.html">A lighthouse is painted</a>
</ul>
"""
STORM = """<!doctype html>
<title>The storm of the year</title>
<p>The storm came at night and took two boats; the lighthouse kept burning.
"""
LIGHTHOUSE = """<!doctype html>
<title>A lighthouse is painted</title>
<p>It is red and white again. <img src="../../images/lighthouse.png" alt="The lighthouse">
"""
STYLE = "h1 { color: #046 }\n"


def picture(width: int = 64, height: int = 64) -> bytes:
    """A PNG: a red and white tower."""
    rows = b"".join(b"\0" + (b"\xcc\x11\x11" if row // 8 % 2 else b"\xff\xff\xff") * width for row in range(height))
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ]
    body = b"".join(struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks)
    return b"\x89PNG\r\n\x1a\n" + body


SITE: dict[str, bytes] = {
    "index.html": INDEX.encode(),
    "style.css": STYLE.encode(),
    "news/2024/storm.html": STORM.encode(),
    "news/2024/lighthouse.html": LIGHTHOUSE.encode(),
    "images/lighthouse.png": picture(),
}


def write_zip(path: Path, files: Mapping[str, bytes] = SITE) -> Path:
    """The site as a plain zip, folders included, as zip(1) writes it."""
    with zipfile.ZipFile(path, "w") as archive:
        for name in sorted({f"{folder}/" for file in files for folder in PurePath(file).parents if folder.name}):
            archive.writestr(_member(name, 0o040755), b"")
        for name, data in files.items():
            method = zipfile.ZIP_STORED if name.endswith(".png") else zipfile.ZIP_DEFLATED
            archive.writestr(_member(name, 0o100644), data, method)
    return path


def _member(name: str, mode: int) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, TIME)
    member.create_system = 3
    member.external_attr = mode << 16
    return member


def write_damaged(path: Path) -> Path:
    """The same zip, with one bit of the picture turned over."""
    data = bytearray(write_zip(path).read_bytes())
    data[data.index(b"IDAT") + 20] ^= 1
    path.write_bytes(data)
    return path


def write_all(folder: Path) -> list[Path]:
    """Every archive that the README and the demo use."""
    return [
        write_zip(folder / "site.zip"),
        write_damaged(folder / "damaged.zip"),
        labrador.write(folder / "island.lbz", labrador.SITE),
        labrador.write_update(folder / "update.lbz"),
        crystal.write(folder / "harbour.crystalproj"),
        crawls.write_storage(folder / "storage"),
        centidb.write_lmdb(folder / "library.lmdb", centidb.library().entries),
    ]


def main() -> None:
    """Write the samples into the folder named on the command line."""
    parser = argparse.ArgumentParser(description="Write the sample archives.")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for path in write_all(folder):
        print(path)


if __name__ == "__main__":
    main()
