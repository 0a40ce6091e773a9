"""Properties of the key coding: round trips, order, and no exception but our own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archivefs.errors import ArchiveError, CorruptMember
from archivefs.formats.centidb import batches, keyjson, keynames, keys, quicknames, sevenbits
from archivefs.formats.centidb.dialects import ACID_BARE, ACID_PREFIXED, CENTIDB, Dialect
from archivefs.formats.centidb.keys import Moment

DIALECTS = pytest.mark.parametrize("dialect", [CENTIDB, ACID_BARE], ids=["centidb", "acid"])
LIMIT = 2**64 - 1
DAY = 24 * 3600 * 1000

integers = st.integers(0, LIMIT) | st.integers(0, 3000) | st.integers(60000, 70000)
moments = st.builds(
    Moment,
    st.integers(keys.MIN_MILLIS + DAY, keys.MAX_MILLIS - DAY),
    st.integers(0, 127),
)
elements = st.one_of(
    st.none(),
    st.booleans(),
    integers,
    integers.map(lambda number: -number),
    st.binary(max_size=40),
    st.text(st.characters(exclude_categories=[]), max_size=30),
    st.uuids(),
    moments,
)
tuples = st.lists(elements, max_size=5).map(tuple)


@DIALECTS
@given(several=st.lists(tuples, min_size=1, max_size=4))
def test_keys_come_back(dialect: Dialect, several: list[tuple]) -> None:
    found = keys.decode_key(keys.encode_key(several, dialect), dialect)
    assert [list(map(repr, one.values)) for one in found] == [list(map(repr, one)) for one in several]
    assert all(one.canonical for one in found)


@DIALECTS
@given(one=tuples)
def test_names_come_back(dialect: Dialect, one: tuple) -> None:
    data = keys.encode_tuple(one, dialect)
    name = keynames.flat_name(keys.decode_tuple(data, dialect))
    parsed = keynames.parse_flat(name, dialect)
    assert parsed == data or (isinstance(parsed, keynames.CutName) and data.startswith(parsed.bound))
    name.encode()
    assert len(name.encode()) <= 255


@DIALECTS
@given(several=st.lists(tuples, min_size=1, max_size=4))
def test_json_comes_back(dialect: Dialect, several: list[tuple]) -> None:
    key = keys.encode_key(several, dialect).hex()
    answer = keyjson.decoded(key, dialect)
    assert keyjson.encoded(answer["tuples"], dialect) == {"key": key}


# -- order --


@DIALECTS
@given(one=integers, two=integers)
def test_numbers_keep_their_order(dialect: Dialect, one: int, two: int) -> None:
    assert (encoded(one, dialect) < encoded(two, dialect)) == (one < two)


@given(one=integers, two=integers)
def test_negative_numbers_are_in_order_only_in_acid(one: int, two: int) -> None:
    acid = encoded(-one, ACID_BARE) < encoded(-two, ACID_BARE)
    assert acid == (-one < -two)
    if one and two:
        assert (encoded(-one, CENTIDB) < encoded(-two, CENTIDB)) == (one < two)


@given(one=st.binary(max_size=20), two=st.binary(max_size=20))
def test_strings_are_in_order_in_acid(one: bytes, two: bytes) -> None:
    assert (encoded(one, ACID_BARE) < encoded(two, ACID_BARE)) == (one < two)
    if len(one) == len(two) or one.startswith(two) or two.startswith(one):
        assert (encoded(one, CENTIDB) < encoded(two, CENTIDB)) == (one < two)


@given(one=tuples, two=tuples)
def test_tuples_of_acid_sort_as_their_elements(one: tuple, two: tuple) -> None:
    first, second = keys.encode_tuple(one, ACID_BARE), keys.encode_tuple(two, ACID_BARE)
    assert (first < second) == (list(map(rank, one)) < list(map(rank, two)))


@DIALECTS
@given(one=moments, two=moments)
def test_times_after_1970_keep_their_order(dialect: Dialect, one: Moment, two: Moment) -> None:
    if dialect is ACID_BARE or (one.millis >= 0 and two.millis >= 0):
        assert (encoded(one, dialect) < encoded(two, dialect)) == (one < two)


@DIALECTS
@given(one=tuples, more=elements)
def test_a_tuple_is_before_its_extension_and_that_before_a_second_tuple(
    dialect: Dialect, one: tuple, more: keys.Element
) -> None:
    data = keys.encode_tuple(one, dialect)
    longer = keys.encode_tuple((*one, more), dialect)
    assert data < longer < data + keys.SEP


def encoded(value: keys.Element, dialect: Dialect) -> bytes:
    return keys.encode_element(value, dialect)


def rank(value: keys.Element) -> tuple:
    """How elements are meant to sort: by kind, then by value."""
    if value is None:
        return (0, 0)
    if isinstance(value, bool):
        return (3, value)
    if isinstance(value, int):
        return (1 if value < 0 else 2, value)
    if isinstance(value, bytes):
        return (4, value)
    if isinstance(value, str):
        return (5, value.encode("utf-8", "surrogatepass"))
    if isinstance(value, Moment):
        return (7, value)
    return (6, value.bytes)


@given(data=st.binary(max_size=400))
def test_strings_are_groups_of_seven_bits(data: bytes) -> None:
    bits = "".join(f"{byte:08b}" for byte in data)
    groups = bytes(0x80 | int(bits[at : at + 7].ljust(7, "0"), 2) for at in range(0, len(bits), 7))
    assert sevenbits.grouped(data) == groups
    assert sevenbits.ungrouped(groups) == (data, True)


@given(groups=st.binary(max_size=400))
def test_any_groups_are_a_string_or_refused(groups: bytes) -> None:
    bits = "".join(f"{byte & 0x7F:07b}" for byte in groups)
    size = len(bits) // 8
    try:
        data, padded_with_zeros = sevenbits.ungrouped(groups)
    except CorruptMember:
        assert len(groups) % 8 == 1
        return
    assert data == bytes(int(bits[8 * at : 8 * at + 8], 2) for at in range(size))
    assert padded_with_zeros == ("1" not in bits[8 * size :])


# -- whatever the bytes --


@DIALECTS
@given(data=st.binary(max_size=60) | st.lists(st.sampled_from([0x15, 0x28, 0x32, 0x66, 0xF1, 0x80, 0])).map(bytes))
def test_any_bytes_are_a_key_or_refused(dialect: Dialect, data: bytes) -> None:
    try:
        found = keys.decode_key(data, dialect)
    except CorruptMember:
        return
    assert keys.SEP.join(one.data for one in found) == data
    again = keys.encode_key([one.values for one in found], dialect)
    assert all(one.canonical for one in found) == (again == data)
    for one in found:
        keynames.flat_name(one).encode()
        assert one.ends == tuple(sorted(one.ends))


@DIALECTS
@given(
    data=st.binary(max_size=60)
    | st.lists(st.sampled_from([0x15, 0x14, 0x5C, 0x28, 0x32, 0x66, 0xF0, 0xF1, 0xF9, 0xFA, 0x80, 0, 1])).map(bytes)
    | st.lists(tuples, min_size=1, max_size=4).map(lambda several: keys.encode_key(several, CENTIDB))
)
def test_quick_names_are_those_of_decoded_keys(dialect: Dialect, data: bytes) -> None:
    quick = quicknames.QuickNames(dialect)
    try:
        found = keys.decode_key(data, dialect)
    except CorruptMember:
        found = []
    usual = bool(found) and all(one.canonical for one in found)
    assert quick.tuples(data) == ([(one.data, keynames.whole_name(one)) for one in found] if usual else [])
    assert quick.name(data) == (keynames.whole_name(found[0]) if usual and len(found) == 1 and data else None)


@given(number=integers)
def test_quick_names_of_numbers(number: int) -> None:
    assert quicknames.QuickNames(CENTIDB).name(encoded(number, CENTIDB)) == keynames.element_name(number)


@pytest.mark.parametrize(
    "digits", ["f100", "fa000000", "fa0108ef", "fb00ffffff", "fe00ffffffffffff", "ff00ffffffffffffff"]
)
def test_numbers_longer_than_need_be_have_no_quick_name(digits: str) -> None:
    data = bytes.fromhex("15" + digits)
    assert not keys.decode_tuple(data, CENTIDB).canonical
    assert quicknames.QuickNames(CENTIDB).name(data) is None


@DIALECTS
@given(name=st.text(max_size=40))
def test_any_name_is_refused_or_the_one_name(dialect: Dialect, name: str) -> None:
    data = keynames.parse_flat(name, dialect)
    if isinstance(data, bytes):
        assert keynames.flat_name(keys.decode_tuple(data, dialect)) == name


@pytest.mark.parametrize("dialect", [CENTIDB, ACID_PREFIXED, ACID_BARE], ids=["centidb", "prefixed", "bare"])
@given(
    members=st.lists(tuples, min_size=2, max_size=4),
    value=st.binary(min_size=1, max_size=80),
    count=st.booleans(),
)
def test_any_bytes_are_a_batch_or_refused(dialect: Dialect, members: list, value: bytes, count: bool) -> None:
    found = keys.decode_key(keys.encode_key(members, dialect), dialect)
    if count:
        value = bytes([len(found)]) + value
    batch = batches.open_batch([one.data for one in found], value, dialect=dialect, encodings=(), limit=1000)
    for index in range(len(batch.members)):
        try:
            data = batch.read(index)
        except ArchiveError:
            continue
        assert len(data) == batch.lengths[index]
