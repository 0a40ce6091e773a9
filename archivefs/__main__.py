"""What the installed commands call, and ``python -m archivefs``.

It imports nothing at first, so that Ctrl-C while the rest is loaded ends the command as at any other time:
with one line and exit code 130 (8 where mount(8) asks), not with a traceback out of some import.
"""

import sys

INTERRUPTED = 130
MOUNT8_INTERRUPTED = 8


def main() -> int:
    """``archivefs``; gives the exit code."""
    try:
        from archivefs.cli import main as command

        return command()
    except KeyboardInterrupt:
        return _interrupted()


def mount_helper() -> int:
    """``mount.archivefs``; gives the exit code."""
    try:
        from archivefs.cli.mount_helper import main as command

        return command()
    except KeyboardInterrupt:
        return _interrupted(MOUNT8_INTERRUPTED)


def _interrupted(code: int = INTERRUPTED) -> int:
    if sys.stderr is not None:
        sys.stderr.write("archivefs: interrupted\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
