"""Write the manual pages into a folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from contrib.manuals.pages import pages

ALIAS = "man8/mount.fuse.archivefs.8"
"""The helper's other name: a link."""


def write_all(folder: Path) -> list[Path]:
    """Write every page into *folder*; gives their paths."""
    texts = {f"man{page.section}/{page.name}.{page.section}": str(page) for page in pages()}
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="ascii")
    (folder / ALIAS).unlink(missing_ok=True)
    (folder / ALIAS).symlink_to("mount.archivefs.8")
    return [folder / name for name in (*texts, ALIAS)]


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m contrib.manuals", description=__doc__)
    parser.add_argument("folder", type=Path)
    for path in write_all(parser.parse_args().folder):
        print(path)


if __name__ == "__main__":
    main()
