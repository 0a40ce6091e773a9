"""The README says what is so: its sessions are run, and every command and option is in it.

python -m tests.test_docs        puts what the sessions print now into the README, to be looked at with git diff
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests import consoles
from tests.consoles import Session, Step
from tests.samples.site import write_all

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
SESSIONS = consoles.sessions(README)


# -- sessions --


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the sessions are typed: the sample archives are there, and one session sees what another left."""
    folder = tmp_path_factory.mktemp("readme")
    write_all(folder)
    yield folder
    with open("/proc/self/mounts", encoding="utf-8") as lines:
        points = [line.split(" ")[1] for line in lines]
    for point in points:
        if point.startswith(f"{folder}/"):
            subprocess.run(["fusermount3", "-uz", point], check=False)


def environment(home: Path) -> dict[str, str]:
    """What decides how things are printed; *home* is the user's home folder."""
    others = {name: value for name, value in os.environ.items() if name != "XDG_CONFIG_HOME"}
    return {
        **others,
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "LC_ALL": "C.UTF-8",
        "COLUMNS": "100",
        "TZ": "UTC",
        "PYTHONPATH": str(ROOT),
    }


def _marked(session: Session):
    marks = [pytest.mark.fuse] if session.mounts() else []
    return pytest.param(session, id=f"line {session.line}", marks=marks)


@pytest.mark.parametrize("session", [_marked(session) for session in SESSIONS])
def test_the_readme_prints_what_it_shows(session: Session, folder: Path) -> None:
    printed = consoles.run(session, folder, environment(folder))
    problems = [consoles.differs(step, text) for step, text in zip(session.steps, printed, strict=True)]
    assert "".join(problems) == ""


def test_the_readme_has_sessions() -> None:
    assert sum(len(session.steps) for session in SESSIONS) >= 10


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\nb\n", "a\nb", True),
        ("a\nb\n", "a\n", False),
        ("a\n", "a\nb\n", False),
        ("", "", True),
        ("", "a\n", False),
        ("pid [..] of\n", "pid 12 of\n", True),
        ("pid [..] of\n", "pid 12\nof\n", False),
        ("a\n[...]\nz\n", "a\nb\nc\nz\n", True),
        ("a\n[...]\nz\n", "a\nz\n", True),
        ("a\n[...]\nz\n", "a\nb\n", False),
        ("a\n[...]\n", "a\nb\nc\n", True),
        ("1.5 (x)\n", "1x5 (x)\n", False),
    ],
)
def test_how_output_is_compared(shown: str, printed: str, same: bool) -> None:
    assert (consoles.differs(Step("true", shown), printed) == "") is same


def test_a_session_keeps_its_shell_and_exit_codes(tmp_path: Path) -> None:
    steps = consoles.steps("$ cd sub\n$ pwd \\\n  -P\n$ false\n$ echo $?\n1\n$ ls nowhere\n")
    assert [step.command for step in steps] == ["cd sub", "pwd \\\n  -P", "false", "echo $?", "ls nowhere"]
    (tmp_path / "sub").mkdir()
    printed = consoles.run(Session(1, steps), tmp_path, dict(os.environ))
    assert printed[1].strip() == str((tmp_path / "sub").resolve())
    assert printed[3] == "1\n"
    assert "nowhere" in printed[4]


# -- completeness --


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command with its full name."""
    from archivefs.cli import group

    def below(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
        yield name, command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for child in command.list_commands(context):
                found = command.get_command(context, child)
                assert found is not None
                if not found.hidden:
                    yield from below(f"{name} {child}", found)

    return below("archivefs", group)


def readme() -> str:
    return README.read_text(encoding="utf-8")


def test_every_command_is_in_the_readme() -> None:
    missing = [name for name, _ in commands() if not re.search(rf"`{name}\b", readme())]
    assert missing == []


def test_every_option_of_a_command_is_in_the_readme() -> None:
    given = {
        option
        for _, command in commands()
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden
        for option in [*parameter.opts, *parameter.secondary_opts]
        if option.startswith("--")
    }
    assert sorted(option for option in given if not re.search(rf"{option}(?![\w-])", readme())) == []


def test_every_option_in_the_readme_exists() -> None:
    given = {"--help", "--version"}
    for _, command in commands():
        for parameter in command.params:
            given.update([*parameter.opts, *parameter.secondary_opts])
    # only what stands in code: `--x`, or a line of a session that calls archivefs
    typed = [step.command for session in SESSIONS for step in session.steps if step.command.startswith("archivefs")]
    named = re.findall(r"`[^`\n]*`", readme().split("```")[0] + "".join(readme().split("```")[::2]))
    used = {option for text in [*typed, *named] for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)}
    foreign = {"--chmod", "--limit", "--repeat", "--scale"}  # of rsync and of the benchmark
    assert sorted(used - given - foreign) == []


def test_every_mount_option_is_in_the_readme() -> None:
    from archivefs.fuse.options import MOUNT_OPTIONS, OPEN_OPTIONS
    from archivefs.registry import formats

    known = [*MOUNT_OPTIONS, *OPEN_OPTIONS, *(option for form in formats().values() for option in form.options)]
    missing = [option.name for option in known if not re.search(rf"`{option.name}[`=]", readme())]
    assert missing == []


def test_every_format_is_in_the_table() -> None:
    from archivefs.registry import formats

    missing = [
        form.name for form in formats().values() if not re.search(rf"^\| `{form.name}` \|", readme(), re.MULTILINE)
    ]
    assert missing == []


def test_the_urls_in_the_table_have_these_paths() -> None:
    from archivefs.urlnames import index_name, marked_path

    table = readme().split("| URL | path |\n| --- | --- |\n")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `(.*?)` \| `(.*?)` \|$", table, re.MULTILINE)
    assert len(rows) >= 4
    for url, path in rows:
        listed = "/".join(marked_path(url)).replace("^index", index_name("text/html"))
        assert listed == path, url


def test_every_make_target_in_the_readme_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", readme(), re.MULTILINE))
    assert named <= targets
    assert {"install", "demo", "test", "lint", "check", "bench"} <= named


def test_the_exit_codes_are_in_every_help() -> None:
    for name, command in commands():
        if name == "archivefs" or not isinstance(command, click.Group):
            text = command.get_help(click.Context(command, info_name=name))
            assert "Exit codes:" in text, f"{name} --help does not say what its exit codes mean"


# -- mending --


def main() -> None:
    """Run all sessions and write down what they print."""
    text = readme()
    with tempfile.TemporaryDirectory() as folder:
        write_all(Path(folder))
        for session in SESSIONS:
            outputs = consoles.run(session, Path(folder), environment(Path(folder)))
            for step, printed in zip(session.steps, outputs, strict=True):
                text = consoles.corrected(text, step, printed)
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
