"""``make bench-inflate``: which library inflates fastest, side by side in one run.

Small members of 1 to 30 KB at one go, a large one in pieces, and the CRC of both; the libraries take turns and
the best round of each counts.  ``archivefs/zips/inflating.py`` has the order that follows from it.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from contrib.bench.inputs import text

LIBRARIES = ("zlib", "isal.isal_zlib", "zlib_ng.zlib_ng")
RAW = -15
INPUT, OUTPUT = 32 << 10, 256 << 10
"""The pieces in which ``archivefs/zips/codecs.py`` reads and ``readers.py`` asks."""


class Sample(NamedTuple):
    """A member, packed and plain."""

    packed: bytes
    plain: bytes


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table: milliseconds, and how many times as fast as zlib."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--large", type=int, default=32 << 20, metavar="BYTES")
    parser.add_argument("--repeat", type=int, default=7)
    asked = parser.parse_args(arguments)
    small = [_sample(number, 1000 + number * 29_000 // asked.members) for number in range(asked.members)]
    large = _sample(1, asked.large)
    steps: dict[str, Callable[[Any], None]] = {
        f"{asked.members:,} small members": lambda library: _at_one_go(library, small),
        "their CRC": lambda library: _sums(library, small),
        f"one of {asked.large >> 20} MiB in pieces": lambda library: _in_pieces(library, large),
        "its CRC": lambda library: _sums(library, [large]),
    }
    _print(_libraries(), steps, asked.repeat)
    return 0


def _sample(number: int, size: int) -> Sample:
    plain = text(number, min(size, 1 << 20))
    plain = (plain * -(-size // len(plain)))[:size]
    engine = zlib.compressobj(6, zlib.DEFLATED, RAW)
    return Sample(engine.compress(plain) + engine.flush(), plain)


def _libraries() -> dict[str, Any]:
    found = {}
    for name in LIBRARIES:
        try:
            found[name.partition(".")[0]] = importlib.import_module(name)
        except ImportError:
            print(f"{name} is not installed: pip install 'archivefs[fast]'", file=sys.stderr)
    return found


def _print(libraries: dict[str, Any], steps: dict[str, Callable[[Any], None]], repeat: int) -> None:
    print(f"{'':28}" + "".join(f"{name:>22}" for name in libraries))
    for label, step in steps.items():
        best = _best(libraries, step, repeat)
        shown = (f"{seconds * 1000:12.1f} ms {best['zlib'] / seconds:5.2f}x" for seconds in best.values())
        print(f"{label:28}" + "".join(shown))
    copies = (str(hasattr(library.decompressobj(RAW), "copy")) for library in libraries.values())
    print(f"{'can be copied':28}" + "".join(f"{answer:>22}" for answer in copies))


def _best(libraries: dict[str, Any], step: Callable[[Any], None], repeat: int) -> dict[str, float]:
    best = dict.fromkeys(libraries, float("inf"))
    for _ in range(repeat):
        for name, library in libraries.items():
            start = time.perf_counter()
            step(library)
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def _at_one_go(library: Any, samples: Sequence[Sample]) -> None:
    for packed, plain in samples:
        engine = library.decompressobj(RAW)
        if engine.decompress(packed, len(plain) + 1) != plain or not engine.eof:
            raise AssertionError(f"{library.__name__} gives other bytes")


def _in_pieces(library: Any, sample: Sample) -> None:
    engine, position, got = library.decompressobj(RAW), 0, 0
    while not engine.eof:
        data = engine.unconsumed_tail
        if not data:
            data = sample.packed[position : position + INPUT]
            position += INPUT
        got += len(engine.decompress(data, OUTPUT))
    if got != len(sample.plain):
        raise AssertionError(f"{library.__name__} gives {got} bytes")


def _sums(library: Any, samples: Sequence[Sample]) -> None:
    for sample in samples:
        library.crc32(sample.plain)


if __name__ == "__main__":
    sys.exit(main())
