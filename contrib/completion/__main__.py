"""Write the completions into a folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from contrib.commandtree import command_tree
from contrib.completion import bash, fish, zsh
from contrib.completion.model import AWK_MOUNTPOINTS, AWK_MOUNTS, CONFIGURATION

FILES = {"bash/archivefs": bash.script, "zsh/_archivefs": zsh.script, "fish/archivefs.fish": fish.script}
MARKS = {"@AWK_MOUNTS@": AWK_MOUNTS, "@AWK_MOUNTPOINTS@": AWK_MOUNTPOINTS, "@CONFIGURATION@": CONFIGURATION}


def write_all(folder: Path) -> list[Path]:
    """Write every script into *folder*; gives their paths."""
    tree = command_tree()
    for name, script in FILES.items():
        text = script(tree)
        for mark, meaning in MARKS.items():
            text = text.replace(mark, meaning)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in FILES]


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m contrib.completion", description=__doc__)
    parser.add_argument("folder", type=Path)
    for path in write_all(parser.parse_args().folder):
        print(path)


if __name__ == "__main__":
    main()
