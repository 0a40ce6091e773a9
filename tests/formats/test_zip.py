"""Format zip: the contract on an ordinary and on an odd archive, names, links, attributes, recognising."""

from __future__ import annotations

import itertools
import json
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from archivefs.errors import BadOption, CorruptMember, EncryptedMember, LimitExceeded, NotFound, UnreadableArchive
from archivefs.format import Match, Opening, Probe
from archivefs.formats.zip import FORMAT, encoding, splitting
from archivefs.formats.zip.tree import ZipTree
from archivefs.options import parse
from archivefs.tree import Directory, File, Kind, Symlink
from tests.contract import TreeContract
from tests.samples.zips import CONTENT, write_many, write_tree
from tests.walking import as_dict, content_of, names_of
from tests.zips.forge import DOS, FOLDER, LINK, STORED, Forge, extra_field

Grow = Callable[..., ZipTree]


def opened(path: Path, **options: object) -> ZipTree:
    tree = FORMAT.open(str(path), Opening(options={"encoding": "utf-8", **options}))
    assert isinstance(tree, ZipTree)
    return tree


@pytest.fixture
def grow(tmp_path: Path) -> Iterator[Grow]:
    """Opens a tree of forged members; given as names (content = the name) or as arguments of Forge.add."""
    trees: list[ZipTree] = []

    def make(*members: str | bytes | dict, **options: object) -> ZipTree:
        forge = Forge()
        for member in members:
            if not isinstance(member, dict):
                member = {"name": member, "data": member.encode() if isinstance(member, str) else member}
            forge.add(**member)
        path = tmp_path / f"{len(trees)}.zip"
        path.write_bytes(forge.end())
        trees.append(opened(path, **options))
        return trees[-1]

    yield make
    for tree in trees:
        tree.close()


class TestZip(TreeContract):
    expected = CONTENT

    def make_archive(self, tmp_path: Path) -> Path:
        return write_tree(tmp_path / "archive.zip")

    def open_archive(self, path: Path) -> ZipTree:
        return opened(path)


class TestOddZip(TreeContract):
    """The contract on names, links and collisions as nobody should make them."""

    expected = {
        "^2E^2E": {"up": b"../up"},
        "^2Earchivefs": b"reserved",
        "^5EFF": b"caret",
        "^empty": {"abs": b"/abs"},
        "^empty~2": b"no name",
        "a": {"b": {"c": b"a/b/c"}, "^empty": b"in a folder"},
        "a~2": b"a file called a",
        "broken^FF": b"broken",
        "dup": b"one",
        "dup~2": b"a true dup~2",
        "dup~3": b"two",
        "dup~4": b"three",
        "in": "a/b/c",
        "line^0Abreak": b"line",
        "out": b"../outside",
        "win": {"dows": b"backslash"},
    }

    def make_archive(self, tmp_path: Path) -> Path:
        forge = Forge(b"a program that unpacks it")
        for name, data in [
            ("a", b"a file called a"),
            ("a/b/c", b"a/b/c"),
            ("a/", b"in a folder"),
            ("/abs", b"/abs"),
            ("", b"no name"),
            ("../up", b"../up"),
            (".archivefs", b"reserved"),
            ("^FF", b"caret"),
            (b"broken\xff", b"broken"),
            ("line\nbreak", b"line"),
            ("dup", b"one"),
            ("dup", b"two"),
            ("dup~2", b"a true dup~2"),
            ("dup", b"three"),
        ]:
            forge.add(name, data)
        forge.add("in", b"a/b/c", mode=LINK)
        forge.add("out", b"../outside", mode=LINK)
        forge.add("win\\dows", b"backslash", central={"made": DOS})
        path = tmp_path / "odd.zip"
        path.write_bytes(forge.end())
        return path

    def open_archive(self, path: Path) -> ZipTree:
        return opened(path)


class TestNames:
    def test_folders_follow_from_names(self, grow: Grow) -> None:
        tree = grow("x/y/1", "x/2", "3", "x/y/4")
        assert as_dict(tree.root()) == {"3": b"3", "x": {"2": b"x/2", "y": {"1": b"x/y/1", "4": b"x/y/4"}}}

    def test_listed_in_the_order_of_the_bytes_of_the_names(self, grow: Grow) -> None:
        names = ["b", "a", "Z", "ž", "\U0001f409", "\uffee", "a.b", "a b", "a-b", "_", "~"]
        tree = grow(*names)
        assert names_of(tree.root()) == sorted(names, key=str.encode)

    def test_a_folder_named_twice_is_one(self, grow: Grow) -> None:
        folder = {"name": "d/", "data": b"", "mode": FOLDER}
        tree = grow(folder, "d/x", folder, "d/y")
        assert as_dict(tree.root()) == {"d": {"x": b"d/x", "y": b"d/y"}}
        assert tree.facts()["files"] == 2

    def test_a_name_that_ends_in_a_slash_with_data_is_a_file_in_it(self, grow: Grow) -> None:
        tree = grow({"name": "d/", "data": b"data"}, "d/x")
        assert as_dict(tree.root()) == {"d": {"^empty": b"data", "x": b"d/x"}}

    def test_names_that_clash_in_any_order(self, grow: Grow) -> None:
        for order in itertools.permutations(["n", "n", "n~2", "n/x"]):
            tree = grow(*order)
            assert sorted(names_of(tree.root())) == ["n", "n~2", "n~3", "n~4"]
            assert tree.root().child("n").kind is Kind.DIRECTORY
            assert content_of(tree.root().child("n~2")) == b"n~2", order

    def test_of_one_name_the_first_keeps_it(self, grow: Grow) -> None:
        tree = grow(*({"name": "twin", "data": b"%d" % number} for number in range(1, 12)))
        assert content_of(tree.root().child("twin")) == b"1"
        for number in range(2, 12):
            assert content_of(tree.root().child(f"twin~{number}")) == b"%d" % number

    def test_case_and_composition_are_kept_apart(self, grow: Grow) -> None:
        names = ["Case", "case", "caf\u00e9", "cafe\u0301"]
        assert names_of(grow(*names).root()) == sorted(names, key=str.encode)

    def test_reserved_only_at_the_root(self, grow: Grow) -> None:
        tree = grow(".archivefs/x", "sub/.archivefs", "^2Earchivefs")
        assert sorted(as_dict(tree.root())) == ["^2Earchivefs", "^5E2Earchivefs", "sub"]
        assert names_of(tree.root().child("sub")) == [".archivefs"]

    def test_backslashes_are_slashes_only_on_dos(self, grow: Grow) -> None:
        dos = {"central": {"made": DOS}}
        tree = grow(
            {"name": "d\\e\\f", "data": b"1", **dos},
            {"name": "d\\e/f", "data": b"2", **dos},
            {"name": "u\\v", "data": b"3"},
        )
        assert as_dict(tree.root()) == {"d": {"e": {"f": b"1"}}, "d\\e": {"f": b"2"}, "u\\v": b"3"}

    def test_names_too_long_are_shortened_and_stay_distinct(self, grow: Grow) -> None:
        tree = grow(b"n" * 300, b"n" * 301, b"f" * 300 + b"/x", b"u" * 255)
        names = names_of(tree.root())
        assert len(names) == 4
        assert max(len(name.encode()) for name in names) <= 255
        assert content_of(tree.root().child("u" * 255)) == b"u" * 255

    def test_an_encoding_for_names_without_the_flag(self, grow: Grow) -> None:
        members = [
            {"name": b"caf\x82/\x81.txt", "data": b"old"},
            {"name": "café/new", "data": b"new"},
            {"name": b"plain/x", "data": b"x"},
            {"name": "plain/ž", "data": b"z"},
        ]
        shown = as_dict(grow(*members, encoding="cp437").root())
        assert shown == {"café": {"ü.txt": b"old"}, "café~2": {"new": b"new"}, "plain": {"x": b"x", "ž": b"z"}}
        assert sorted(as_dict(grow(*members).root())) == ["caf^82", "café", "plain"]

    def test_half_a_letter_is_no_backslash(self, grow: Grow) -> None:
        tree = grow({"name": "ソ.txt".encode("cp932"), "data": b"x", "central": {"made": DOS}}, encoding="cp932")
        assert names_of(tree.root()) == ["ソ.txt"]

    def test_a_unicode_path_is_taken_only_where_it_belongs(self, grow: Grow) -> None:
        def with_path(name: bytes, path: bytes, crc: int | None = None) -> dict:
            body = struct.pack("<BI", 1, zlib.crc32(name) if crc is None else crc) + path
            return {"name": name, "data": name, "central": {"extra": extra_field(0x7075, body)}}

        tree = grow(
            with_path(b"d/\x82", "d/é".encode()),
            with_path(b"\x83", b"../evil", crc=5),
            with_path(b"\x84", b"not utf-8 \xff"),
            with_path(b"ascii", b"other"),
            b"d/x",
        )
        assert as_dict(tree.root()) == {
            "^83": b"\x83",
            "^84": b"\x84",
            "ascii": b"ascii",
            "d": {"x": b"d/x", "é": b"d/\x82"},
        }

    def test_two_thousand_levels(self, grow: Grow) -> None:
        tree = grow("a/" * 2000 + "leaf", "top")
        node: object = tree.root()
        for _ in range(2000):
            assert isinstance(node, Directory)
            node = node.child("a")
        assert content_of(node.child("leaf")) == b"a/" * 2000 + b"leaf"
        assert tree.folders.parts_of(2000) == ("a",) * 2000

    def test_names_that_ask_for_too_many_folders(self, grow: Grow, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(splitting, "SPARE_FOLDERS", 100)
        grow("a/" * 90 + "x")
        with pytest.raises(UnreadableArchive, match="too many folders"):
            grow("a/" * 200 + "x")


class TestLinks:
    def test_shown_only_if_they_stay_inside(self, grow: Grow) -> None:
        targets = {
            "l/in": "../x",
            "l/up": "..",
            "l/out": "../../x",
            "abs": "/etc/passwd",
            "trick": "l/../../x",
            "self": "self",
        }
        tree = grow("x", *({"name": name, "data": to.encode(), "mode": LINK} for name, to in targets.items()))
        shown = {name: tree.lookup(name.split("/")) for name in targets}
        assert {name for name, node in shown.items() if isinstance(node, Symlink)} == {"l/in", "l/up", "self"}
        for name, node in shown.items():
            text = targets[name]
            assert (node.target() if isinstance(node, Symlink) else content_of(node).decode()) == text
            assert node.attributes().size == len(text)

    def test_nothing_above_the_top_of_a_sub_tree(self, grow: Grow) -> None:
        tree = grow(
            "d/x", {"name": "d/up", "data": b"../y", "mode": LINK}, {"name": "d/e/in", "data": b"../x", "mode": LINK}
        )
        assert tree.lookup(("d", "up")).kind is Kind.SYMLINK
        tree.top = ("d",)
        assert tree.lookup(("d", "up")).kind is Kind.FILE
        assert tree.lookup(("d", "e", "in")).kind is Kind.SYMLINK

    def test_damaged_ones_are_files_that_give_an_error(self, grow: Grow) -> None:
        tree = grow({"name": "l", "data": b"x", "mode": LINK, "central": {"crc": 7}})
        node = tree.root().child("l")
        assert isinstance(node, File)
        with pytest.raises(CorruptMember):
            content_of(node)

    def test_a_target_of_megabytes_is_not_read(self, grow: Grow) -> None:
        tree = grow({"name": "l", "data": b"x" * (8 << 20), "mode": LINK})
        node = tree.root().child("l")
        assert isinstance(node, File)
        with pytest.raises(LimitExceeded, match="8388608"):
            node.open()

    def test_odd_targets_are_texts(self, grow: Grow) -> None:
        targets = [b"", b"x\0y", b"\xff\xfe", b"x" * 5000]
        tree = grow(*({"name": str(number), "data": data, "mode": LINK} for number, data in enumerate(targets)))
        for number, data in enumerate(targets):
            node = tree.root().child(str(number))
            assert isinstance(node, File)
            assert content_of(node) == data

    def test_a_target_is_in_the_encoding_of_the_names(self, grow: Grow) -> None:
        tree = grow({"name": b"\x82", "data": b"x"}, {"name": b"l", "data": b"\x82", "mode": LINK}, encoding="cp437")
        node = tree.root().child("l")
        assert isinstance(node, Symlink)
        assert content_of(tree.root().child(node.target())) == b"x"

    def test_special_files_are_plain(self, grow: Grow) -> None:
        modes = [0o010666, 0o140666, 0o020666, 0o060666, 0o150000, 0o104755]
        tree = grow(*({"name": oct(mode), "data": b"x", "mode": mode} for mode in modes))
        assert [entry.kind for entry in tree.root().entries()] == [Kind.FILE] * len(modes)


class TestWhatIsSaidOfThem:
    def test_attributes_come_from_the_directory(self, grow: Grow) -> None:
        stamp = extra_field(0x5455, struct.pack("<Bi", 1, 1_600_000_000))
        tree = grow({"name": "f", "data": b"four", "central": {"extra": stamp}})
        assert tree.root().child("f").attributes() == (4, 1_600_000_000 * 10**9, zlib.crc32(b"four"))

    def test_a_folder_has_the_time_of_its_entry_or_of_the_archive(self, grow: Grow) -> None:
        stamp = extra_field(0x5455, struct.pack("<Bi", 1, 1_600_000_000))
        tree = grow({"name": "own/", "mode": FOLDER, "method": STORED, "central": {"extra": stamp}}, "other/x")
        assert tree.root().child("own").attributes().mtime_ns == 1_600_000_000 * 10**9
        archive = Path(tree.directory.path).stat().st_mtime_ns
        assert tree.root().child("other").attributes().mtime_ns == archive

    def test_extended_attributes(self, grow: Grow) -> None:
        tree = grow(
            {"name": "d/Page.HTML", "data": b"<p>", "method": STORED}, {"name": b"\xff", "data": b"x", "method": STORED}
        )
        assert tree.lookup(("d", "Page.HTML")).xattrs() == {
            "user.archivefs.key": b"d/Page.HTML",
            "user.archivefs.method": b"stored",
            "user.archivefs.compressed_size": b"3",
            "user.archivefs.crc32": b"%08x" % zlib.crc32(b"<p>"),
            "user.mime_type": b"text/html",
        }
        odd = tree.root().child("^FF").xattrs()
        assert odd["user.archivefs.key"] == b"\xff"
        assert "user.mime_type" not in odd
        assert tree.root().child("d").xattrs() == {}

    def test_usage_and_facts(self, tmp_path: Path) -> None:
        forge = Forge()
        forge.add("d/a", b"x" * 1000)
        forge.add("d/b", b"y" * 10, method=STORED)
        forge.add("e/", b"", method=STORED, mode=FOLDER)
        forge.add("secret", b"z", method=STORED, central={"flags": 1})
        path = tmp_path / "facts.zip"
        path.write_bytes(forge.end(comment=b"a \xff remark"))
        tree = opened(path)
        assert tree.usage() == (1011, 0, 6)
        facts = dict(tree.facts())
        assert facts.pop("compressed_size") < 100
        assert facts == {
            "files": 3,
            "directories": 2,
            "size": 1011,
            "methods": {"stored": 2, "deflate": 1},
            "encrypted": 1,
            "comment": "a \\xff remark",
        }
        json.dumps(facts)
        tree.close()

    def test_sizes_no_file_can_have_do_not_break_the_sum(self, grow: Grow) -> None:
        big = {"size": 2**32 - 1, "packed": 2**32 - 1, "extra": extra_field(1, struct.pack("<QQ", 2**64 - 1, 2**63))}
        tree = grow({"name": "a", "data": b"x", "central": big}, {"name": "b", "data": b"x", "central": big})
        assert tree.usage().size == 2**63 - 1
        assert tree.root().child("a").attributes().size == 2**63 - 1
        with pytest.raises(CorruptMember):
            content_of(tree.root().child("a"))

    def test_encrypted_ones_are_listed_and_not_opened(self, grow: Grow) -> None:
        tree = grow({"name": "s", "data": b"x" * 10, "central": {"flags": 1}})
        node = tree.root().child("s")
        assert isinstance(node, File)
        with pytest.raises(EncryptedMember):
            node.open()

    def test_idents_of_folders_entries_lead_nowhere(self, grow: Grow) -> None:
        tree = grow({"name": "d/", "method": STORED, "mode": FOLDER}, "d/x")
        assert tree.root().child("d").ident == 3
        assert tree.lookup(("d", "x")).ident == 4
        with pytest.raises(NotFound):
            tree.node(2)


class TestMany:
    def test_the_first_of_many_names_comes_soon_and_the_rest_in_order(self, tmp_path: Path) -> None:
        tree = opened(write_many(tmp_path / "many.zip", 200_000))
        start = time.monotonic()
        folder = tree.root().child("many")
        assert isinstance(folder, Directory)
        assert next(folder.entries()).name == "0000000"
        assert time.monotonic() - start < 5
        start = time.monotonic()
        for number in range(0, 200_000, 777):
            assert folder.child(f"{number:07}").ident == 2 * number + 2
            assert next(folder.entries(f"{number:07}")).name == f"{number + 1:07}"
        assert time.monotonic() - start < 5
        tree.close()


class TestRecognising:
    @pytest.mark.parametrize(
        ("name", "data", "expected"),
        [
            ("a.zip", Forge().end(), Match.MAYBE),
            ("no-ending", b"PK\3\4 and so on", Match.MAYBE),
            ("stub.exe", b"MZ" + b"\x90" * 100 + Forge().end(), Match.MAYBE),
            ("Called.ZIP", b"no zip at all", Match.MAYBE),
            ("text.txt", b"no zip at all", Match.NO),
            ("cut", b"almost PK\5\6 the end", Match.NO),
            ("empty", b"", Match.NO),
        ],
    )
    def test_by_content_or_by_name(self, tmp_path: Path, name: str, data: bytes, expected: Match) -> None:
        path = tmp_path / name
        path.write_bytes(data)
        assert FORMAT.match(Probe(str(path))) is expected

    def test_a_folder_is_none(self, tmp_path: Path) -> None:
        path = tmp_path / "folder.zip"
        path.mkdir()
        assert FORMAT.match(Probe(str(path))) is Match.NO

    def test_what_is_only_called_so_says_what_is_wrong(self, tmp_path: Path) -> None:
        path = tmp_path / "called.zip"
        path.write_bytes(b"no zip at all")
        with pytest.raises(UnreadableArchive, match="not a zip: there is no end record"):
            opened(path)

    def test_the_option_takes_encodings_that_leave_ascii_alone(self) -> None:
        assert parse([], FORMAT.options) == {"encoding": "utf-8"}
        assert parse(["encoding=CP437"], FORMAT.options) == {"encoding": "cp437"}
        assert encoding("UTF8") == "utf-8"
        for wrong in ("utf-16", "utf-7", "rot13", "cp037", "unicode_escape", "nonsense", "undefined", "idna"):
            with pytest.raises(BadOption):
                parse([f"encoding={wrong}"], FORMAT.options)

    def test_oddities_of_structure_are_logged_once(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        path = tmp_path / "a.zip"
        forge = Forge()
        forge.add("x", b"x")
        path.write_bytes(forge.end(count=7))
        opened(path).close()
        assert [record.getMessage() for record in caplog.records] == [
            f"{path}: the end record counts 7 entries, there are 1"
        ]
