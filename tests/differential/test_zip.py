"""Against two independent readers and writers: the standard library's zipfile, and Info-ZIP."""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
import zipfile
from pathlib import Path

import pytest

from archivefs.format import Opening, VerifyRequest
from archivefs.formats.zip import FORMAT
from archivefs.tree import Directory, File, Symlink, Tree
from tests.samples.zips import write_tree
from tests.walking import as_dict, content_of, walk

NEEDS_INFO_ZIP = pytest.mark.skipif(not (shutil.which("zip") and shutil.which("unzip")), reason="no Info-ZIP here")


def opened(path: Path) -> Tree:
    return FORMAT.open(str(path), Opening(options={"encoding": "utf-8"}))


def plain_files(tree: Tree) -> dict[str, bytes]:
    return {"/".join(parts): content_of(node) for parts, _, node, _ in walk(tree) if isinstance(node, File)}


def some_names(chance: random.Random) -> list[str]:
    pieces = ["a", "b", "index.html", "ž", "\u2603", "a b", "~", "x.tar.gz", "-rf", "$(id)", "\U0001f409", "UPPER"]
    return sorted({"/".join(chance.choices(pieces, k=chance.randrange(1, 5))) for _ in range(60)})


def without_clashes(names: list[str]) -> list[str]:
    """Those that no other needs as a folder."""
    return [name for name in names if not any(other.startswith(name + "/") for other in names)]


@pytest.mark.parametrize("seed", range(6))
def test_what_zipfile_writes(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    content = {
        name: chance.randbytes(chance.choice([0, 1, 100, 50_000])) * 3 for name in without_clashes(some_names(chance))
    }
    path = tmp_path / "stdlib.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.comment = b"a comment"
        for name, data in content.items():
            method = chance.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
            if chance.random() < 0.3:  # sizes only behind the data, and zip64 fields
                info = zipfile.ZipInfo(name)
                info.compress_type = method
                with archive.open(info, "w", force_zip64=True) as member:
                    member.write(data)
            else:
                archive.writestr(name, data, method)
    tree = opened(path)
    assert plain_files(tree) == content
    tree.close()
    assert FORMAT.verify is not None
    assert list(FORMAT.verify(str(path), Opening(), VerifyRequest())) == []


def test_times_and_sizes_as_zipfile_has_them(tmp_path: Path) -> None:
    path = write_tree(tmp_path / "sample.zip")
    tree = opened(path)
    directory = tree.directory  # type: ignore[attr-defined]
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        assert len(infos) == len(directory)
        for i, info in enumerate(infos):
            assert directory.name(i).decode() == info.filename
            assert (directory.size(i), directory.compressed_size(i)) == (info.file_size, info.compress_size)
            assert (directory.crc(i), directory.method(i)) == (info.CRC, info.compress_type)
            assert (directory.offset(i), directory.flags(i)) == (info.header_offset, info.flag_bits)
    tree.close()


def test_written_to_a_pipe(tmp_path: Path) -> None:
    """Without a way back, the writer puts sizes behind the data."""
    path = tmp_path / "piped.zip"
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as sink, zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", b"hello " * 100)
        archive.writestr("b", b"")
    with os.fdopen(reading, "rb") as source:
        path.write_bytes(source.read())
    tree = opened(path)
    assert plain_files(tree) == {"a": b"hello " * 100, "b": b""}
    tree.close()


@NEEDS_INFO_ZIP
class TestInfoZip:
    @pytest.fixture
    def site(self, tmp_path: Path) -> Path:
        chance = random.Random(3)
        site = tmp_path / "site"
        for name in without_clashes(some_names(chance)):
            file = site / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(chance.randbytes(chance.choice([0, 1, 100, 50_000])) * 3)
            os.utime(file, (1_600_000_000 + len(name), 1_600_000_000 + len(name)))
        (site / "empty folder").mkdir()
        (site / "link").symlink_to("a/x")
        return site

    def zipped(self, site: Path, *options: str) -> Path:
        path = site.parent / "made.zip"
        subprocess.run(["zip", "-q", "-r", "-y", *options, path, "."], cwd=site, check=True, timeout=60)
        return path

    @pytest.mark.parametrize("options", [[], ["-0"], ["-9"], ["-Z", "bzip2"], ["-D"]], ids=" ".join)
    def test_what_zip_writes(self, site: Path, options: list[str]) -> None:
        if (
            subprocess.run(["zip", "-h2"], capture_output=True, timeout=60).stdout.find(b"bzip2") < 0
            and "bzip2" in options
        ):
            pytest.skip("this zip has no bzip2")
        tree = opened(self.zipped(site, *options))
        assert _without_empty(as_dict(tree.root())) == _without_empty(_on_disk(site))
        for parts, _, node, _ in walk(tree):
            on_disk = site.joinpath(*parts)
            if not isinstance(node, Directory):
                assert node.attributes().mtime_ns // 10**9 == int(on_disk.lstat().st_mtime), parts
            if isinstance(node, Symlink):
                assert node.target() == os.readlink(on_disk)
        tree.close()

    def test_zip_writing_to_a_pipe(self, site: Path) -> None:
        (site / "link").unlink()  # zip refuses to store into a pipe where the link happens to come first
        path = site.parent / "piped.zip"
        done = subprocess.run(
            ["zip", "-q", "-r", "-y", "-", "."], cwd=site, check=True, timeout=60, capture_output=True
        )
        path.write_bytes(done.stdout)
        tree = opened(path)
        assert as_dict(tree.root()) == _on_disk(site)
        tree.close()

    def test_unzip_makes_the_same_tree(self, site: Path) -> None:
        path = write_tree(site.parent / "ours.zip")
        out = site.parent / "out"
        subprocess.run(["unzip", "-q", path, "-d", out], check=True, timeout=60)
        tree = opened(path)
        assert as_dict(tree.root()) == _on_disk(out)
        tree.close()

    def test_encrypted_by_zip(self, site: Path) -> None:
        path = self.zipped(site, "-P", "secret")
        assert FORMAT.verify is not None
        found = list(FORMAT.verify(str(path), Opening(), VerifyRequest()))
        assert {finding.code for finding in found} == {"zip-encrypted"}

    def test_unzip_and_verify_agree_on_damage(self, site: Path) -> None:
        whole = self.zipped(site).read_bytes()
        path = site.parent / "damaged.zip"
        chance = random.Random(5)
        with zipfile.ZipFile(site.parent / "made.zip") as archive:
            members = [info for info in archive.infolist() if info.compress_size > 100]
        assert FORMAT.verify is not None
        for info in chance.sample(members, 8):
            lengths = struct.unpack_from("<HH", whole, info.header_offset + 26)
            at = info.header_offset + 30 + sum(lengths) + chance.randrange(10, info.compress_size - 10)
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
            told = subprocess.run(["unzip", "-tqq", path], capture_output=True, timeout=60).returncode
            found = [finding.where for finding in FORMAT.verify(str(path), Opening(), VerifyRequest())]
            # without the UTF-8 flag zipfile takes names for those of an old PC
            name = info.filename if info.flag_bits & 0x800 else info.filename.encode("cp437").decode()
            assert (told != 0, found) == (True, [name]), at

    def test_a_self_extracting_stub(self, site: Path) -> None:
        plain = self.zipped(site)
        stub = site.parent / "stub.zip"
        stub.write_bytes(b"#!/bin/sh\nexit\n" * 100 + plain.read_bytes())
        mended = site.parent / "mended.zip"
        shutil.copy(stub, mended)
        subprocess.run(["zip", "-q", "-A", mended], check=True, timeout=60)
        trees = [opened(path) for path in (plain, stub, mended)]
        expected = as_dict(trees[0].root())
        assert all(as_dict(tree.root()) == expected for tree in trees)
        for tree in trees:
            tree.close()


def _on_disk(folder: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in folder.iterdir():
        if path.is_symlink():
            found[path.name] = os.readlink(path)
        else:
            found[path.name] = _on_disk(path) if path.is_dir() else path.read_bytes()
    return found


def _without_empty(tree: dict[str, object]) -> dict[str, object]:
    """``zip -D`` leaves out folders that have nothing in them."""
    return {name: value for name, value in tree.items() if value != {}}
