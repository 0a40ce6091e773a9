"""``python -m contrib.torture``: the tests that gain from time, run for long.

Random operations against a plain folder, eight readers at once, eight clients while archives come and go, drivers
killed while archives are written, each on both transports; then the decoders of centidb stores on damaged input.  The
exit code is that of the tests, or 1 where a decoder has failed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import pytest

from contrib.torture import centidb

TESTS = ["tests/mount/test_clients.py", "tests/mount/test_random_edits.py"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run them for as long as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m contrib.torture", description="Long runs of the tests.")
    parser.add_argument("--seconds", type=float, default=60, help="how long readers and walks go on (60)")
    parser.add_argument("--operations", type=int, default=100_000, help="how many random operations (100000)")
    parser.add_argument("--rounds", type=int, default=100, help="how often drivers are killed, for each format (100)")
    parser.add_argument("--fuzzing", type=float, default=60, help="seconds each decoder is fed with damaged input (60)")
    asked, more = parser.parse_known_args(arguments)
    os.environ["ARCHIVEFS_TORTURE_SECONDS"] = str(asked.seconds)
    os.environ["ARCHIVEFS_TORTURE_OPERATIONS"] = str(asked.operations)
    os.environ["ARCHIVEFS_TORTURE_ROUNDS"] = str(asked.rounds)
    code = int(pytest.main([*TESTS, "--durations=0", "--timeout=7200", *more]))
    return code or centidb.main(["--seconds", str(asked.fuzzing)])


if __name__ == "__main__":
    sys.exit(main())
