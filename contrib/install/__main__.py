"""Install archivefs for all users of a machine, or take it away again."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from contrib.install.places import Places, Refused, check
from contrib.install.placing import put, remove_folders, take_away
from contrib.install.telling import tell, tell_of_the_end


def install(places: Places) -> None:
    """Make everything, and put it in place."""
    from contrib.install.building import build_program, closed_folder, interpreter  # they need what is in .venv
    from contrib.install.extras import build_extras

    with tempfile.TemporaryDirectory() as folder:
        build_program(Path(folder), places)
        build_extras(Path(folder), places)
        put(Path(folder), places)
    tell(places)
    print(f"archivefs is installed: {places.now(places.prefix / 'bin' / 'archivefs')}")
    closed = closed_folder(interpreter())
    if closed:
        print(f"archivefs: its Python is in {closed}, which other users cannot enter", file=sys.stderr)


def uninstall(places: Places) -> None:
    """Take away what was installed, and nothing else."""
    gone = take_away(places)
    tell_of_the_end(places, gone)
    remove_folders(gone, places)
    print(f"archivefs is gone from {places.now(places.prefix)}")


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m contrib.install", description=__doc__)
    parser.add_argument("--uninstall", action="store_true")
    parser.add_argument(
        "--destdir", default="", help="the root folder of the machine it is for, if that is not this one"
    )
    parser.add_argument("--prefix", type=Path, default=Path("/usr/local"))
    parser.add_argument("--sbin", type=Path, default=Path("/sbin"), help="where mount(8) looks for its helpers")
    said = parser.parse_args()
    destdir = Path(os.path.abspath(said.destdir)) if said.destdir else None
    places = Places(prefix=said.prefix, sbin=said.sbin, destdir=destdir)
    try:
        check(places)
        (uninstall if said.uninstall else install)(places)
    except (Refused, OSError) as error:
        print(f"archivefs: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
