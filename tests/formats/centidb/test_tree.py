"""The tree of a centidb store: what is shown, under which names, in either layout."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from archivefs.errors import BadOption, NotFound, UnreadableArchive
from archivefs.formats.centidb import keynames
from archivefs.tree import Directory, Tree
from tests.contract import TreeContract
from tests.formats.centidb.opening import open_tree, opened, shown
from tests.samples import centidb as sample
from tests.samples.centidb import StoreMaker, write_dump, write_leveldb, write_lmdb
from tests.shared import shared_module
from tests.walking import content_of, names_of


class TestContract(TreeContract):
    """The promises of every tree, on LMDB."""

    def make_archive(self, tmp_path: Path) -> Path:
        return write_lmdb(tmp_path / "library.lmdb", sample.library().entries)

    def open_archive(self, path: Path) -> Tree:
        return open_tree(path)


class TestNestedContract(TestContract):
    def open_archive(self, path: Path) -> Tree:
        return open_tree(path, "layout=nested")


class TestOverlappingContract(TestContract):
    def make_archive(self, tmp_path: Path) -> Path:
        return write_dump(tmp_path / "overlapping.dump", sample.overlapping().entries)


class TestBareHexContract(TestContract):
    def make_archive(self, tmp_path: Path) -> Path:
        return write_lmdb(tmp_path / "acid.mdb", sample.acid(bare=True).entries, subdir=False)

    def open_archive(self, path: Path) -> Tree:
        return open_tree(path, "names=hex")


class TestDumpContract(TestContract):
    def make_archive(self, tmp_path: Path) -> Path:
        return write_dump(tmp_path / "library.dump", sample.acid(bare=False).entries, ordered=False)


class TestLevelDbContract(TestContract):
    def make_archive(self, tmp_path: Path) -> Path:
        return write_leveldb(tmp_path / "library.ldb", sample.library().entries)


# -- what is shown --


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return write_dump(tmp_path / "library.dump", sample.library().entries)


def test_the_top(library: Path) -> None:
    with opened(library) as tree:
        assert names_of(tree.root()) == ["collections", "counters", "encodings", "errors.txt", "store.yaml", "unknown"]
        top = shown(tree)
    assert top["counters"]["visits"] == b"42\n"
    assert top["counters"]["%00collections_idx"] == b"19\n"
    assert top["encodings"]["004-zlib"] == b"name: zlib\nidx: 4\nbuiltin: true\nusable: true\n"
    assert top["encodings"]["011-reversed"] == b"name: reversed\nidx: 11\nbuiltin: false\nusable: false\n"
    assert top["unknown"] == {}
    assert top["errors.txt"] == b""
    names = ["mixed", "notes", "odd packers", "pages", "people", "pickles", "weird%2Fname%00%FF"]
    assert list(top["collections"]) == names
    assert top["store.yaml"].decode().splitlines()[:6] == [
        "engine: dump",
        "dialect: centidb",
        'prefix: ""',
        "db: null",
        "warnings: 0",
        "collections:",
    ]
    assert b'\n  18: !!binary "d2VpcmQvbmFtZQD/"\n' in top["store.yaml"]


def test_a_collection(library: Path) -> None:
    with opened(library) as tree:
        people = shown(tree, "collections", "people")
        info = shown(tree, "collections", "people")["info.yaml"]
    assert people["records"]["Pa1"] == sample.key("Alfred", "Nairobi", 46)
    assert people["decoded"]["Pa3.yaml"] == '- "Zoë"\n- "Köln"\n- 0\n'.encode()
    assert people["physical"]["1501"] == b"\x03" + sample.key("Alfred", "Nairobi", 46)
    assert people["indices"]["name"]["TZoë"] == {"Pa3": "-> ../../../records/Pa3"}
    assert people["indices"]["city_age"] == {
        "TKöln,Pa0": {"Pa3": "-> ../../../records/Pa3"},
        "TMadrid,Pb64": {"Pa2": "-> ../../../records/Pa2"},
        "TNairobi,Pb46": {"Pa1": "-> ../../../records/Pa1"},
    }
    assert info == b'name: people\nidx: 10\nprefix: "0a"\nindex_for: null\nencoder_hint: null\ncount: 3\n'


def test_values_are_made_readable_and_never_loaded(library: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with opened(library) as tree:
        decoded = shown(tree, "collections", "pickles", "decoded")
        records = shown(tree, "collections", "pickles", "records")
        notes = shown(tree, "collections", "notes", "decoded")
    assert records == {"Rdict": sample.PLAIN_PICKLE, "Rhostile": sample.HOSTILE}
    assert decoded["Rdict.pickle.txt"].startswith(
        b"{b'name': b'bob', 'age': 5, b'l': [1, None]}\n\n       0: PROTO 2\n"
    )
    assert decoded["Rhostile.pickle.txt"].startswith(b"# not shown as a value: it uses GLOBAL\n\n       0: PROTO 2\n")
    assert b"GLOBAL 'os mkdir'" in decoded["Rhostile.pickle.txt"]
    assert notes["Rnote,Pa1.json"] == b'{\n  "n": 1\n}\n'
    assert not (tmp_path / "ARCHIVEFS_PICKLE_WAS_EXECUTED").exists()


def test_batches_and_opaque_packers(library: Path) -> None:
    with opened(library) as tree:
        pages = shown(tree, "collections", "pages", "records")
        odd = shown(tree, "collections", "odd packers", "records")
    assert list(pages.values()) == [b"<html>%d</html>" % at * 9 for at in range(1, 9)]
    assert odd == {"Pa1": b"backwards"}


def test_nested(library: Path) -> None:
    with opened(library, "layout=nested") as tree:
        mixed = shown(tree, "collections", "mixed", "records")
        link = shown(tree, "collections", "people", "indices", "name")
    assert mixed["Tuser"] == b"value 17\n"
    assert mixed["Tuser,"] == {
        "Pc613": b"value 15\n",
        "Pc613,": {"Rend": b"value 14\n"},
        "Pc614,": {"Tx": b"value 16\n"},
    }
    assert mixed["()"] == b"value 0\n"
    assert [name for name in mixed if "~~" in name] == [name for name in mixed if name.startswith("Txxx")]
    assert list(mixed["Ty,"].values()) == [b"value 20\n"]
    assert link["TAlfred"] == {"Pa1": "-> ../../../records/Pa1"}


@pytest.mark.parametrize("layout", ["flat", "nested"])
def test_overlapping_batches(tmp_path: Path, layout: str) -> None:
    path = write_dump(tmp_path / "o.dump", sample.overlapping().entries)
    with opened(path, f"layout={layout}") as tree:
        found = shown(tree, "collections", "overlap", "records")
    if layout == "nested":
        found |= {"Pa2,Rx": found.pop("Pa2,")["Rx"]}
    assert found == sample.OVERLAPPING


def test_a_batch_is_listed_in_the_folders_of_its_members(tmp_path: Path) -> None:
    made = StoreMaker()
    idx = made.collection(b"c")
    made.batch(idx, [(("a", 1), b"1"), (("b", 2), b"2"), (("c", 3), b"3")])
    made.record(idx, ("c", 0), b"0")
    made.record(idx, ("a", 9), b"9")
    with opened(write_dump(tmp_path / "d", made.entries), "layout=nested") as tree:
        found = shown(tree, "collections", "c", "records")
    assert found == {
        "Ta,": {"Pa1": b"1", "Pa9": b"9"},
        "Tb,": {"Pa2": b"2"},
        "Tc,": {"Pa0": b"0", "Pa3": b"3"},
    }


def test_folders_of_batches_are_jumped_over(tmp_path: Path) -> None:
    made = StoreMaker()
    idx = made.collection(b"c")
    for at in range(0, 4000, 4):
        made.batch(idx, [(("a", at + number), b"x") for number in range(4)])
    made.batch(idx, [(("a", 4000), b"x"), (("b", 1), b"y")])
    made.record(idx, ("b", 2), b"z")
    with opened(write_dump(tmp_path / "d", made.entries), "layout=nested") as tree:
        records = tree.lookup(("collections", "c", "records"))
        engine, asked = tree.store.engine, []
        scan = engine.scan
        engine.scan = lambda *arguments: asked.append(arguments) or scan(*arguments)
        assert names_of(records) == ["Ta,", "Tb,"]
        assert len(asked) < 10
        assert names_of(records.child("Ta,")) == [keynames.element_name(at) for at in range(4001)]
        assert names_of(records.child("Tb,")) == ["Pa1", "Pa2"]


@pytest.mark.parametrize("seed", range(12))
def test_nested_and_flat_show_the_same_and_resume_anywhere(tmp_path: Path, seed: int) -> None:
    path = write_dump(tmp_path / "d", random_batches(random.Random(seed)).entries)
    with opened(path) as tree:
        flat = names_of(tree.lookup(("collections", "c", "records")))
    with opened(path, "layout=nested") as tree:
        assert sorted(flattened(tree.lookup(("collections", "c", "records")))) == sorted(flat)


def random_batches(chance: random.Random) -> StoreMaker:
    """Neighbours in batches of all sizes, and some records written again by themselves."""
    made = StoreMaker()
    idx = made.collection(b"c")
    length, number = lambda: chance.randint(1, 3), lambda: chance.randrange(4)
    some = {tuple(chance.choice(("a", "b", number())) for _ in range(length())) for _ in range(chance.randint(9, 40))}
    rows = sorted(some, key=lambda values: made.key(*values))
    while rows:
        size = chance.choice((1, 1, 2, 3, 5))
        run, rows = rows[:size], rows[size:]
        if len(run) > 1:
            made.batch(idx, [(values, b"batched") for values in run])
        for values in run:
            if len(run) == 1 or chance.random() < 0.1:
                made.record(idx, values, b"single")
    return made


def flattened(directory: Directory, before: str = "") -> Iterator[str]:
    names = [entry.name for entry in directory.entries()]
    for at, name in enumerate(names):
        assert [entry.name for entry in directory.entries(name)] == names[at + 1 :]
        node = directory.child(name)
        if isinstance(node, Directory):
            yield from flattened(node, before + name)
        else:
            yield before + name


def test_other_names_are_not_found(library: Path) -> None:
    with opened(library) as tree:
        for parts in (
            ("collections", "mixed", "records", "Pb00"),
            ("collections", "mixed", "records", "x-1500"),
            ("collections", "mixed", "records", "1500"),
            ("collections", "people", "decoded", "Pa1.json"),
            ("collections", "people", "indices", "name", "Tnobody"),
            ("collections", "people", "indices", "name", "TAlfred", "Pa2"),
            ("collections", "index:people:name"),
            ("unknown", "1501"),
            ("counters", "%00COLLECTIONS_idx"),
        ):
            with pytest.raises(NotFound):
                tree.lookup(parts)


def test_hex_names_sort_as_stored(library: Path) -> None:
    with opened(library, "names=hex") as tree:
        names = names_of(tree.lookup(("collections", "mixed", "records")))
    whole = [name for name in names if "~~" not in name]
    assert whole[0] == "()"
    assert whole[1:] == sorted(whole[1:])
    assert len(names) == len(sample.MIXED)


def test_nested_needs_readable_names(library: Path) -> None:
    with pytest.raises(BadOption, match="layout=nested"):
        open_tree(library, "layout=nested,names=hex")


# -- dialects --


@pytest.mark.parametrize("bare", [False, True])
def test_acid(tmp_path: Path, bare: bool) -> None:
    path = write_dump(tmp_path / "acid.dump", sample.acid(bare=bare).entries)
    with opened(path) as tree:
        assert tree.facts()["dialect"] == ("acid-bare" if bare else "acid-prefixed")
        found = shown(tree, "collections")
        assert shown(tree, "unknown") == {}
    assert found["pages"]["records"] == {f"T{letter},Pa{at}": b'{"page":%d}' % at for letter in "ab" for at in range(4)}
    assert list(found["people"]["indices"]["age"]) == ["Mb40", "Pa6", "Pb24"]
    assert found["people"]["decoded"]["Pa1.json"] == b'{\n  "name": "Alfred"\n}\n'
    assert b"encoder: json\n" in found["people"]["info.yaml"]


def test_the_lossy_generation_is_recognised(tmp_path: Path) -> None:
    name = bytes.fromhex("8098edf6e3b1cae3ba9aadf6f3cdbee9b29e")
    entries = {b"\x09\x15\x03\x28" + name + b"\x00\x0f": b"\x03\x15\x0b", b"\x0a\x15\x01": b"\x03x"}
    with opened(write_dump(tmp_path / "d", entries)) as tree:
        assert shown(tree, "collections") == {}
        assert shown(tree, "unknown") == {physical.hex(): value for physical, value in entries.items()}
        assert b"warning: " in shown(tree)["store.yaml"]


@pytest.mark.parametrize(
    ("first", "value", "dialect"),
    [
        (b"\x00\x28\xb0\x40", b"\x03", "centidb"),
        (b"\x09\x15\x00\x28\xb0\xc0\x28\xb0\xc0", b"\x03\x15\x0a", "acid-prefixed"),
        (b"\x09\x15\x00\x28\xb0\xc0\x28\xb0\xc0", b"\x15\x0a", "acid-bare"),
        (b"\x09\x15\x00\x28\xb0\x00\x28\xb0\xc0", b"\x15\x0a", "centidb-2013-08"),
    ],
)
def test_without_a_counter_the_first_key_tells(tmp_path: Path, first: bytes, value: bytes, dialect: str) -> None:
    with opened(write_dump(tmp_path / "d", {first: value})) as tree:
        assert tree.facts()["dialect"] == dialect


def test_a_store_of_something_else_is_refused_and_an_empty_one_is_not(tmp_path: Path) -> None:
    with pytest.raises(UnreadableArchive, match="not a centidb store"):
        open_tree(write_dump(tmp_path / "other", {b"key": b"value"}))
    with opened(write_dump(tmp_path / "empty", {})) as tree:
        assert shown(tree, "collections") == {}
        assert shown(tree, "unknown") == {}
    with opened(tmp_path / "other", "dialect=centidb") as tree:
        assert shown(tree, "unknown") == {b"key".hex(): b"value"}


def test_two_stores_in_one_engine(tmp_path: Path) -> None:
    entries = {b"zzz": b"foreign"}
    for prefix in (b"one:", b"two:"):
        made = StoreMaker(prefix=prefix)
        made.record(made.collection(b"things"), (prefix,), prefix)
        entries |= made.entries
    path = write_dump(tmp_path / "d", entries)
    for prefix in (b"one:", b"two:"):
        with opened(path, f"prefix={prefix.hex()}") as tree:
            assert list(shown(tree, "collections", "things", "records").values()) == [prefix]
            assert shown(tree, "unknown") == {}


def test_an_index_without_its_parent(tmp_path: Path) -> None:
    made = StoreMaker()
    idx = made.collection(b"index:gone:i", b"gone")
    made.entry(idx, ("a",), (1,))
    with opened(write_dump(tmp_path / "d", made.entries)) as tree:
        found = shown(tree, "collections", "index:gone:i")
    assert found["entries"] == {"Ta": {"Pa1": b""}}
    assert "records" not in found


def test_stale_entries_are_counted(tmp_path: Path) -> None:
    made = StoreMaker()
    idx = made.collection(b"c")
    index = made.collection(b"index:c:i", b"c")
    made.record(idx, (1,), b"x")
    made.entry(index, ("a",), (1,))
    made.entry(index, ("a",), (2,))
    with opened(write_dump(tmp_path / "d", made.entries)) as tree:
        info = tree.lookup(("collections", "c", "info.yaml"))
        assert b"stale" not in content_of(info)
        found = shown(tree, "collections", "c", "indices")
        assert found["i"]["Ta"] == {"Pa1": "-> ../../../records/Pa1", "Pa2": "-> ../../../records/Pa2"}
        assert b"stale: 1\n" in content_of(info)


# -- the samples that may lie beside the project --


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("stores")
    shared_module("samples", "make_centidb.py").main(["", str(out)])
    return out


def test_every_sample_store_shows_what_it_must(stores: Path) -> None:
    manifest = json.loads((stores / "MANIFEST.json").read_text())
    facts = json.loads((stores / "FACTS.json").read_text())
    assert "basic.ldb" in manifest
    for name, store in manifest.items():
        for prefix in store["prefixes"]:
            with opened(stores / name, f"names=hex,prefix={prefix},db={store.get('db', '')}") as tree:
                check_facts(tree, facts[store["facts"]][prefix])


def check_facts(tree: Tree, facts: dict) -> None:
    collections = tree.store.metadata.collections
    tables, links = {}, []
    for found in shown(tree, "collections").values():
        idx = next(int(line[5:]) for line in found["info.yaml"].decode().splitlines() if line.startswith("idx: "))
        if not collections[idx].is_index:
            tables[str(idx)] = {name: digest(data) for name, data in found["records"].items()}
        for iname, tuples in found.get("indices", {}).items():
            whole = b"index:%s:%s" % (collections[idx].name, iname.encode())
            index = next(number for number, collection in collections.items() if collection.name == whole)
            for name, rows in tuples.items():
                links += [[index, name, row, row not in found["records"]] for row in rows]
    assert tables == facts["tables"]
    assert sorted(links) == sorted(facts["links"])
    assert {name.hex(): value for name, value in tree.store.metadata.counters.items()} == facts["counters"]
    assert sorted(shown(tree, "unknown")) == sorted(facts["unknown"])


def digest(data: object) -> object:
    return hashlib.sha256(data).hexdigest() if isinstance(data, bytes) else data
