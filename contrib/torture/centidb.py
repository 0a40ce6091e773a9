"""``python -m contrib.torture.centidb``: every decoder of centidb stores, fed with damaged input.

Each target takes bytes and may raise nothing but the project's own errors; what it reads must also fit together.
Inputs are mutations of sound ones, the same in each run that has the same seed.  With ``--atheris`` (``pip install
atheris``, which is no dependency) the coverage of the code guides them instead.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from archivefs.caches import ByteCache
from archivefs.errors import ArchiveError
from archivefs.formats.centidb import batches, keyjson, keynames, keys, pickles, renderings
from archivefs.formats.centidb.dialects import ACID_BARE, ACID_PREFIXED, CENTIDB, Dialect
from archivefs.formats.centidb.dump import Dump
from archivefs.formats.centidb.engine import Engine, Item
from archivefs.formats.centidb.places import Limits
from archivefs.formats.centidb.store import Store
from tests.samples import centidb as sample

DIALECTS = (CENTIDB, ACID_PREFIXED, ACID_BARE)
SMALL = 1 << 16
Target = Callable[[bytes], None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the targets, each for as long as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m contrib.torture.centidb", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"{', '.join(TARGETS)} (all)")
    parser.add_argument("--seconds", type=float, default=60, help="how long each goes on (60)")
    parser.add_argument("--seed", type=int, default=1, help="of the mutations (1)")
    parser.add_argument("--atheris", action="store_true", help="let atheris choose the inputs")
    asked = parser.parse_args(arguments)
    wrong = 0
    for name in asked.targets or TARGETS:
        run = _run_atheris if asked.atheris else _run_mutations
        wrong += run(name, asked.seconds, asked.seed)
    return min(wrong, 1)


# -- the targets --


def a_key(data: bytes) -> None:
    """Keys, their names and their JSON; the first byte chooses the dialect."""
    dialect, data = _dialect(data)
    found = keys.decode_key(data, dialect)
    assert keys.joined([one.data for one in found]) == data
    again = keys.encode_key([one.values for one in found], dialect)
    assert (again == data) == all(one.canonical for one in found)
    assert keyjson.encoded(keyjson.decoded(data.hex(), dialect)["tuples"], dialect) == {"key": again.hex()}
    for one in found:
        parsed = keynames.parse_flat(keynames.flat_name(one), dialect)
        assert parsed == one.data or (isinstance(parsed, keynames.CutName) and one.data.startswith(parsed.bound))


def a_name(data: bytes) -> None:
    """Any text as a name of a record or a collection."""
    dialect, data = _dialect(data)
    text = data.decode("utf-8", "surrogateescape")
    found = keynames.parse_flat(text, dialect)
    if isinstance(found, bytes):
        assert keynames.flat_name(keys.decode_tuple(found, dialect)) == text
    keynames.parse_hex(text)
    name = keynames.parse_cname(text)
    assert name is None or keynames.cname(name) == text


def a_batch(data: bytes) -> None:
    """A physical key, as long as the second byte says, and the value of a batch."""
    dialect, data = _dialect(data)
    size, data = data[0] if data else 0, data[1:]
    tuples = [one.data for one in keys.decode_key(data[:size], dialect)]
    if len(tuples) < 2 or not data[size:]:
        return
    batch = batches.open_batch(tuples, data[size:], dialect=dialect, encodings={11: b"x"}, limit=SMALL)
    for index in range(len(batch.members)):
        with contextlib.suppress(ArchiveError):
            assert len(batch.read(index)) == batch.lengths[index]
    batch.without({0})


def a_pickle(data: bytes) -> None:
    """The disassembly and the decoder of plain data; nothing is ever loaded."""
    pickles.is_pickle(data)
    assert len(pickles.rendering(data, SMALL)) <= 2 * SMALL
    assert not os.path.exists("ARCHIVEFS_PICKLE_WAS_EXECUTED")


def a_value(data: bytes) -> None:
    """Any value made readable, with any hint."""
    dialect, data = _dialect(data)
    for hint in (b"", b"json", b"pickle", b"key", b"text", b"\xff"):
        renderings.render(data, hint, dialect, SMALL)


def a_dump(data: bytes) -> None:
    """The text of ``mdb_dump``."""
    descriptor = os.memfd_create("dump")
    try:
        os.pwrite(descriptor, data, 0)
        engine = Dump(f"/proc/self/fd/{descriptor}")
        try:
            _walk(engine)
        finally:
            engine.close()
    finally:
        os.close(descriptor)


def a_store(data: bytes) -> None:
    """A whole store, metadata, records, batches and all; what is listed is found, too."""
    entries = dict(_pairs(data))
    store = Store(
        Entries(entries),
        prefix=b"",
        dialect="auto",
        cache=ByteCache(SMALL),
        limits=Limits(value=SMALL),
        archive="store",
    )
    for idx in store.metadata.collections:
        for named in store.listed(idx):
            assert named.name == keynames.whole_name(keys.decode_tuple(named.data, store.dialect))
            place = store.find(idx, named.data)
            assert place is not None, named
            with contextlib.suppress(ArchiveError):
                assert place == store.locate(idx, named.data)[0]
                store.read(place)
    for key, value in entries.items():
        store.is_unknown(key, len(value))


TARGETS: dict[str, Target] = {
    "key": a_key,
    "name": a_name,
    "batch": a_batch,
    "pickle": a_pickle,
    "value": a_value,
    "dump": a_dump,
    "store": a_store,
}


def _dialect(data: bytes) -> tuple[Dialect, bytes]:
    return DIALECTS[data[0] % 3 if data else 0], data[1:]


def _walk(engine: Engine) -> None:
    for item in engine.items(b"", b"", SMALL):
        with contextlib.suppress(ArchiveError):
            engine.get(item.key, SMALL)


class Entries(Engine):
    """An engine in memory."""

    kind = "entries"

    def __init__(self, entries: Mapping[bytes, bytes]) -> None:
        self._entries = entries
        self._keys = sorted(entries)

    def get(self, key: bytes, limit: int) -> bytes | None:
        return self._entries.get(key)

    def scan(self, start: bytes, within: bytes, count: int, value_limit: int = 0) -> tuple[list[Item], bool]:
        at = bisect_left(self._keys, max(start, within))
        found = [key for key in self._keys[at : at + count] if key.startswith(within)]
        values = [self._entries[key] for key in found]
        items = [
            Item(key, len(value), value if 0 < value_limit >= len(value) else None)
            for key, value in zip(found, values, strict=True)
        ]
        return items, len(found) == count

    def close(self) -> None:
        pass


def _packed(entries: Mapping[bytes, bytes]) -> bytes:
    """Entries as bytes: each size in two of them."""
    parts = [part for pair in sorted(entries.items()) for part in pair]
    return b"".join(len(part).to_bytes(2, "big") + part for part in parts)


def _pairs(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    parts = []
    while data:
        size = int.from_bytes(data[:2], "big")
        parts.append(data[2 : 2 + size])
        data = data[2 + size :]
    return zip(parts[::2], parts[1::2], strict=False)


# -- sound inputs --


def seeds(target: str) -> list[bytes]:
    """Inputs to begin with."""
    stores = [sample.library(), sample.overlapping(), sample.acid(bare=False), sample.acid(bare=True)]
    numbers = (0, 0, 1, 2)
    pairs = [(bytes([number]), made) for number, made in zip(numbers, stores, strict=True)]
    if target == "key":
        return [head + key[1:] for head, made in pairs for key in made.entries]
    if target == "name":
        return [
            head + keynames.flat_name(one).encode()
            for head, made in pairs
            for key in made.entries
            for one in keys.decode_key(key[1:], DIALECTS[head[0]])
        ]
    if target == "batch":
        rows = ((head, key[1:], value) for head, made in pairs for key, value in made.entries.items())
        return [
            head + bytes([len(key)]) + key + value for head, key, value in rows if b"\x66" in key and len(key) < 256
        ]
    if target == "pickle":
        return [sample.PLAIN_PICKLE, sample.HOSTILE]
    if target == "value":
        return [head + value[1:] for head, made in pairs for value in made.entries.values()]
    if target == "dump":
        return [_dumped(made, printed=printed) for made in stores[1:] for printed in (False, True)]
    return [_packed(made.entries) for made in stores]


def _dumped(made: sample.StoreMaker, *, printed: bool) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return sample.write_dump(Path(folder) / "dump", made.entries, printed=printed).read_bytes()


# -- running --


def _run_mutations(name: str, seconds: float, seed: int) -> int:
    """Whether something went wrong; the input is printed then."""
    target, chance, known = TARGETS[name], random.Random(seed), seeds(name)
    start, runs = time.monotonic(), 0
    while (spent := time.monotonic() - start) < seconds:
        data = mutated(chance.choice(known), known, chance)
        runs += 1
        try:
            target(data)
        except ArchiveError:
            pass
        except Exception as error:
            print(f"{name}: run {runs}: {type(error).__name__}: {error}\n{data.hex()}", file=sys.stderr)
            return 1
    print(f"{name}: {runs} runs in {spent:.0f} s, nothing but errors of our own")
    return 0


def mutated(data: bytes, known: Sequence[bytes], chance: random.Random) -> bytes:
    """Some changes: bytes set, put in, taken out, repeated, or replaced by a piece of another input."""
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        at, size = chance.randint(0, len(made)), chance.choice((1, 1, 2, 4, 16))
        piece = chance.choice(known)
        cut = chance.randint(0, len(piece))
        made[at : at + chance.choice((0, size))] = chance.choice(
            (b"", chance.randbytes(size), made[at : at + size] * 2, piece[cut : cut + size], b"\xff" * size, b"\x66")
        )
    return bytes(made)


def _run_atheris(name: str, seconds: float, seed: int) -> int:
    """The same with atheris, which ends its process: so in one of its own."""
    with tempfile.TemporaryDirectory() as corpus:
        for number, data in enumerate(seeds(name)):
            Path(corpus, str(number)).write_bytes(data)
        child = os.fork()
        if not child:
            _fuzz(name, [f"-max_total_time={seconds:.0f}", f"-seed={seed}", "-max_len=8192", corpus])
        return int(os.waitpid(child, 0)[1] != 0)


def _fuzz(name: str, words: Sequence[str]) -> NoReturn:
    import atheris  # type: ignore[import-not-found]

    target = TARGETS[name]

    def guarded(data: bytes) -> None:
        with contextlib.suppress(ArchiveError):
            target(data)

    atheris.instrument_all()
    atheris.Setup([name, "-print_final_stats=1", *words], guarded)
    atheris.Fuzz()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
