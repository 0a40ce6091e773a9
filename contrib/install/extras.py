"""What desktops, shells, man and systemd want to know of the program."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from contrib.completion.__main__ import write_all as write_completions
from contrib.install.places import Places, below
from contrib.manuals.__main__ import write_all as write_manuals

ROOT = Path(__file__).parents[2]
FILES = {
    "contrib/mime/archivefs.xml": "share/mime/packages",
    "contrib/desktop/archivefs.desktop": "share/applications",
    "contrib/desktop/archivefs-servicemenu.desktop": "share/kio/servicemenus",
    "contrib/desktop/Mount with archivefs": "share/archivefs",
    "README.md": "share/doc/archivefs",
    "CHANGELOG.md": "share/doc/archivefs",
    "LICENSE": "share/doc/archivefs",
}
"""A file, and the folder below the prefix that it goes to."""
COMPLETIONS = {
    "bash": "share/bash-completion/completions",
    "zsh": "share/zsh/site-functions",
    "fish": "share/fish/vendor_completions.d",
}
UNITS, EXAMPLES = "lib/systemd/user", "share/doc/archivefs/examples"
FOR_USERS = (".service", ".socket", ".timer", ".path", ".target")
"""Units that are started by name; of the others, somebody must make his own."""


def build_extras(root: Path, places: Places) -> None:
    """Make all of it below *root*."""
    prefix = below(root, places.prefix)
    write_manuals(prefix / "share" / "man")
    with tempfile.TemporaryDirectory() as folder:
        for path in write_completions(Path(folder)):
            _copy(path, prefix / COMPLETIONS[path.parent.name])
    for path, target in (
        *((ROOT / name, target) for name, target in FILES.items()),
        *units(ROOT / "contrib" / "systemd"),
    ):
        _copy(path, prefix / target)


def units(folder: Path) -> Iterator[tuple[Path, str]]:
    """What is in contrib/systemd, and where each goes."""
    for path in sorted(folder.glob("*")):
        if path.is_file():
            yield path, UNITS if path.suffix in FOR_USERS else EXAMPLES


def _copy(path: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, folder / path.name)
