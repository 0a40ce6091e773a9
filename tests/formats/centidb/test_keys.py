"""The key coding against the vectors: every row, in the direction and dialect it names."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest

from archivefs.errors import CorruptMember
from archivefs.formats.centidb import keynames, keys, varints
from archivefs.formats.centidb.dialects import ACID_BARE, BY_NAME, CENTIDB, Dialect
from archivefs.formats.centidb.keys import Moment

VECTORS = Path(__file__).parents[2] / "vectors" / "centidb" / "keys.tsv"
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Vector(NamedTuple):
    literal: str
    data: bytes
    dialect: Dialect
    mode: str
    order: str

    @property
    def tuples(self) -> list[tuple]:
        value = literal(self.literal)
        return value if isinstance(value, list) else [value]


def literal(text: str) -> object:
    """The value of a literal with UUID('…') and DT('…') in it, without running anything."""

    def value(node: ast.expr) -> object:
        if isinstance(node, ast.Tuple):
            return tuple(map(value, node.elts))
        if isinstance(node, ast.List):
            return list(map(value, node.elts))
        if isinstance(node, ast.Call):
            (argument,) = map(ast.literal_eval, node.args)
            return UUID(argument) if node.func.id == "UUID" else moment(datetime.fromisoformat(argument))
        return ast.literal_eval(node)

    return value(ast.parse(text, mode="eval").body)


def moment(when: datetime) -> Moment:
    aware = when if when.tzinfo else when.replace(tzinfo=timezone.utc)
    millis = (aware - EPOCH) // timedelta(milliseconds=1)
    return Moment(millis, aware.utcoffset() // timedelta(minutes=15) + 64)


def vectors() -> Iterator[Vector]:
    for line in VECTORS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            text, digits, note = line.split("\t")
            dialect, mode, *words = note.split("|")[0].split()
            yield Vector(text, bytes.fromhex(digits), BY_NAME[dialect], mode, words[0] if words else "")


ALL = list(vectors())


def those(*modes: str) -> list:
    chosen = [vector for vector in ALL if vector.mode in modes]
    assert chosen
    return [pytest.param(vector, id=f"{vector.dialect.name} {vector.data.hex()[:40]}") for vector in chosen]


def test_all_vectors_were_read() -> None:
    assert len(ALL) == 338
    assert {vector.mode for vector in ALL} == {"both", "encode", "decode", "error"}


@pytest.mark.parametrize("vector", those("both", "encode"))
def test_encoding(vector: Vector) -> None:
    assert keys.encode_key(vector.tuples, vector.dialect).hex() == vector.data.hex()


@pytest.mark.parametrize("vector", those("both", "decode"))
def test_decoding(vector: Vector) -> None:
    found = keys.decode_key(vector.data, vector.dialect)
    assert [list(map(repr, one.values)) for one in found] == [list(map(repr, one)) for one in vector.tuples]
    assert all(one.canonical for one in found) == (vector.mode == "both")
    assert keys.SEP.join(one.data for one in found) == vector.data


@pytest.mark.parametrize("vector", those("error"))
def test_what_is_no_key(vector: Vector) -> None:
    with pytest.raises(CorruptMember):
        keys.decode_key(vector.data, vector.dialect)


def test_order_groups_ascend() -> None:
    groups: dict[str, list[tuple[int, bytes]]] = {}
    for vector in ALL:
        if vector.order:
            name, number = vector.order.removeprefix("order=").split(":")
            groups.setdefault(f"{vector.dialect.name} {name}", []).append((int(number), vector.data))
    assert len(groups) > 3
    for rows in groups.values():
        datas = [data for _, data in sorted(rows)]
        assert all(one < two for one, two in itertools.pairwise(datas))


@pytest.mark.parametrize("vector", those("both", "decode"))
def test_a_name_leads_back(vector: Vector) -> None:
    for found in keys.decode_key(vector.data, vector.dialect):
        name = keynames.flat_name(found)
        assert keynames.parse_flat(name, vector.dialect) == found.data
        assert len(name.encode()) <= 255
        assert "/" not in name
        assert name not in (".", "..")


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "A"),
        (-42, "Mb42"),
        (613, "Pc613"),
        (0, "Pa0"),
        (2**64 - 1, "Pt18446744073709551615"),
        (True, "Q1"),
        (False, "Q0"),
        (b"a/b.txt", "Ra-2fb-2etxt"),
        (b"", "R"),
        ("café x", "Tcafé-20x"),
        ("a\u202eb", "Ta~e2~80~aeb"),
        ("\ud800", "T~ed~a0~80"),
        ("\x85", "T~c2~85"),
        ("~}", "T~7e}"),
        (UUID(int=7), "U00000000-0000-0000-0000-000000000007"),
        (Moment(1377188369123, 68), "W2013-08-22T16:19:29.123Z068"),
        (Moment(-1, 64), "V1969-12-31T23:59:59.999Z064"),
    ],
)
def test_names_of_elements(value: keys.Element, name: str) -> None:
    assert keynames.element_name(value) == name
    assert keynames.parse_element(name) == value


@pytest.mark.parametrize(
    "name",
    ["", "Pb5", "Pa05", "P5", "Q2", "Ra/b", "Ra~2f", "Ra-2F", "T~41", "Tcaf~c3~a9", "U7", "W2013-08-22", "x-1500", "x-",
     "Pa1,", ",Pa1", "A,()", "a", "Pt99999999999999999999", "V2013-08-22T16:19:29.123Z068", "U" + "0" * 32],
)  # fmt: skip
def test_only_the_one_name_is_accepted(name: str) -> None:
    assert keynames.parse_flat(name, CENTIDB) is None


def test_keys_that_we_would_write_otherwise_have_names_in_hex() -> None:
    assert keynames.parse_flat("x-15f100", CENTIDB) == bytes.fromhex("15f100")
    assert keynames.parse_flat("x-15f0", CENTIDB) is None
    (found,) = keys.decode_key(bytes.fromhex("15f100"), CENTIDB)
    assert keynames.flat_name(found) == "x-15f100"


@pytest.mark.parametrize("dialect", [CENTIDB, ACID_BARE], ids=["centidb", "acid"])
@pytest.mark.parametrize("values", [("x" * 300,), (b"\x00" * 200, 5), (1,) * 120, ("ü" * 200, "a"), (b"k" * 260, b"z")])
def test_a_long_name_is_cut_and_gives_a_bound(values: tuple, dialect: Dialect) -> None:
    data = keys.encode_tuple(values, dialect)
    name = keynames.flat_name(keys.decode_tuple(data, dialect))
    assert len(name.encode()) <= 200 + 2 + 32
    cut = keynames.parse_flat(name, dialect)
    assert isinstance(cut, keynames.CutName)
    assert data.startswith(cut.bound)
    assert len(cut.bound) > 60


@pytest.mark.parametrize("value", [0, 240, 241, 2287, 2288, 67823, 67824, 2**24 - 1, 2**24, 2**56, 2**64 - 1])
def test_varints_are_as_long_as_they_say(value: int) -> None:
    data = varints.encode(value)
    assert varints.decode(b"\x00" + data + b"\x00", 1) == (value, 1 + len(data))
    assert varints.length(value) == len(data)


@pytest.mark.parametrize("value", [-1, 2**64])
def test_varints_have_a_range(value: int) -> None:
    with pytest.raises(ValueError, match="64 bits"):
        varints.encode(value)


def test_both_forms_of_240_are_read() -> None:
    assert varints.decode(b"\xf0", 0) == (240, 1)
    assert varints.decode(b"\xf1\x00", 0) == (240, 2)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"people", "people"),
        (b"odd packers", "odd packers"),
        (b"weird/name\x00\xff", "weird%2Fname%00%FF"),
        (b"", "%"),
        (b".hidden", "%2Ehidden"),
        (b"a.b", "a.b"),
        ("café".encode(), "café"),
        (b"100%", "100%25"),
        ("a\u202eb".encode(), "a%E2%80%AEb"),
        (b"index:people:age", "index:people:age"),
    ],
)
def test_names_of_collections(name: bytes, shown: str) -> None:
    assert keynames.cname(name) == shown
    assert keynames.parse_cname(shown) == name


@pytest.mark.parametrize(
    ("idx", "name", "shown"),
    [(4, b"zlib", "004-zlib"), (300, b".x", "300-%2Ex"), (10, b"", "010-%"), (2**63, b"a", "9223372036854775808-a")],
)
def test_names_of_encodings(idx: int, name: bytes, shown: str) -> None:
    assert keynames.encoding_name(idx, name) == shown
    assert len(keynames.encoding_name(idx, b"x" * 250)) <= 255


@pytest.mark.parametrize("shown", [".x", "a%2f", "a%41", "%%", "a/b", "~", "a\ud800"])
def test_names_no_collection_has(shown: str) -> None:
    assert keynames.parse_cname(shown) is None


def test_a_long_name_of_a_collection_is_cut() -> None:
    shown = keynames.cname(b"/" * 100)
    assert len(shown) == 198 + 2 + 32
    assert keynames.parse_cname(shown) is None
