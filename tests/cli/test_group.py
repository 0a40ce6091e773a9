"""The group: help, exit codes, what becomes of errors, and how little is imported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import click
import pytest

from archivefs import __version__, cli
from archivefs.cli import COMMANDS
from archivefs.errors import ArchiveError
from tests.cli.conftest import Run
from tests.fakes import fake, fakery, register, write_fake

NOT_FOR_HELP = {"yaml", "fuse", "sqlite3", "asyncio", "http.server", "starlette", "lmdb", "zstandard", "archivefs.web"}
NOT_FOR_MOUNT = NOT_FOR_HELP | {
    "plyvel",
    "uvicorn",
    "http",
    "difflib",
    "ssl",
    "multiprocessing",
    "_hashlib",
    "email",
    "importlib.metadata",
    "logging.handlers",
}


def python(code: str, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, **more)


# -- help --


def test_without_arguments_it_prints_help(run: Run) -> None:
    outcome = run()
    assert outcome.code == 0
    assert outcome == run("--help")
    for name, summary in COMMANDS.items():
        assert f"  {name:8} {summary}" in outcome.text
    assert "fakery  The fake format" in outcome.text
    assert "Exit codes: 0 done, 1 findings or failure, 2 usage" in outcome.text


def test_version(run: Run) -> None:
    assert run("--version")[:2] == (0, f"archivefs {__version__}\n".encode())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example_and_its_exit_codes(run: Run, name: str) -> None:
    outcome = run(name, "--help")
    assert outcome.code == 0
    assert "Example" in outcome.text
    assert f"archivefs {name}" in outcome.text.partition("Example")[2]
    assert "Exit codes: 0" in outcome.text
    assert "-d, --debug" in outcome.text


@pytest.mark.parametrize("words", ["bitsy", "centidb", "centidb key", "config", "crawls", "urldb"])
def test_a_group_without_a_command_shows_its_help(words: str) -> None:
    called, asked = (
        subprocess.run([sys.executable, "-m", "archivefs", *words.split(), *more], capture_output=True, timeout=60)
        for more in ([], ["--help"])
    )
    assert (called.returncode, called.stdout, called.stderr) == (0, asked.stdout, b"")
    assert f"Example:\n    archivefs {words} " in called.stdout.decode()
    assert "Exit codes: 0" in called.stdout.decode()


def test_the_group_knows_each_command_by_its_own_name() -> None:
    context = click.Context(cli.group)
    for name in COMMANDS:
        command = cli.group.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert cli.group.get_command(context, name) is command
        assert sum("--debug" in parameter.opts for parameter in command.params) == 1, "given once, however often asked"


def test_help_imports_little() -> None:
    code = "import sys; from archivefs.cli import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    modules = set(python(code).stderr.split())
    assert "archivefs.cli" in modules
    assert not modules & NOT_FOR_HELP
    assert not {name for name in modules if name.startswith("archivefs.cli.")} - {"archivefs.cli.shared"}


def test_mounting_a_zip_imports_little(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as written:
        written.writestr("a.txt", "hello")
    code = (
        "import sys; from archivefs.caches import ByteCache; from archivefs.cli import mount, sources\n"
        "import archivefs.fuse.mount, archivefs.fuse.kernel.transport, archivefs.cli.logs, archivefs.cli.notifying\n"
        f"planned = sources.plan([{str(tmp_path / 'a.zip')!r}], sources.OpenRequest(), general=mount.GENERAL)\n"
        "tree = planned.open(cache=ByteCache())\n"
        "assert tree.lookup(['a.txt']).open().read_at(0, 9) == b'hello'\n"
        "print(*sys.modules)"
    )
    modules = set(python(code).stdout.split())
    assert "archivefs.formats.zip.tree" in modules
    assert not modules & NOT_FOR_MOUNT


@pytest.mark.parametrize(("start", "exit_code"), [("main", 130), ("mount_helper", 8)])
def test_an_interrupt_while_the_program_is_loaded_ends_it_in_a_line(start: str, exit_code: int) -> None:
    """Ctrl-C in the first tenth of a second used to show a traceback out of an import."""
    code = (
        "import os, signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'archivefs.errors': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        f"from archivefs.__main__ import {start}\n"
        f"sys.exit({start}())"
    )
    done = python(code)
    assert (done.returncode, done.stderr) == (exit_code, "archivefs: interrupted\n")


def test_listing_does_not_import_libfuse(tmp_path: Path) -> None:
    code = "import sys; from archivefs.cli import main; main(['formats']); main(['doctor']); print(*sys.modules)"
    assert "fuse" not in python(code).stdout.split()


def test_it_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "archivefs", "--version"], capture_output=True, text=True, timeout=60)
    assert done.stdout == f"archivefs {__version__}\n"


# -- errors and exit codes --


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["nonsense"], 2, "archivefs: No such command 'nonsense'. See archivefs --help\n"),
        (["ls"], 2, "archivefs: Missing argument 'SRC[:/PATH]'. See archivefs ls --help\n"),
        (["ls", "gone.zip"], 2, "archivefs: gone.zip: no such file or folder\n"),
        (["ls", "--nonsense", "x"], 2, "archivefs: No such option '--nonsense'. See archivefs ls --help\n"),
    ],
)
def test_a_mistake_is_told_in_one_line(run: Run, args: list[str], code: int, message: str) -> None:
    outcome = run(*args)
    assert (outcome.code, outcome.out) == (code, b"")
    assert outcome.err.replace("No such option: --nonsense", "No such option '--nonsense'") == message


def test_a_bug_is_told_in_one_line_and_shown_in_full_only_on_request(run: Run) -> None:
    outcome = run("fakery", 99)
    message = "archivefs: this is a bug in archivefs: RuntimeError: a bug\\nof two lines; --debug shows where\n"
    assert (outcome.code, outcome.err) == (1, message)
    for args in (["-d", "fakery", 99], ["fakery", "--debug", 99], ["fakery", "-d", 99]):
        outcome = run(*args)
        assert outcome.err.startswith("Traceback (most recent call last):")
        assert outcome.err.endswith(message)


def test_names_in_messages_cannot_upset_the_terminal(run: Run, tmp_path: Path) -> None:
    outcome = run("ls", tmp_path / "a\x1b[31m\nb")
    assert outcome.err == f"archivefs: {tmp_path}/a\\x1b[31m\\nb: no such file or folder\n"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "archivefs: interrupted\n"),
        (BrokenPipeError(32, "Broken pipe"), 141, ""),
        (click.Abort(), 1, "archivefs: given up\n"),
        (OSError(28, "No space left on device", "/x/y"), 1, "archivefs: /x/y: No space left on device\n"),
        (OSError("odd"), 1, "archivefs: odd\n"),
        (MemoryError(), 1, "archivefs: there is not enough memory\n"),
        (ArchiveError(archive="a.zip", member="m"), 1, "archivefs: a.zip: m: something is wrong that a person"),
        (click.ClickException("so\n  so"), 1, "archivefs: so so\n"),
    ],
)
def test_every_error_has_its_line_and_code(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, message: str
) -> None:
    @click.command("fakery")
    def failing() -> None:
        raise error

    register(monkeypatch, [fake(commands=lambda: [failing], command_names=("fakery",))])
    # What is printed on a closed pipe is thrown away, and so is stdout: the test must not lose its own.
    monkeypatch.setattr(cli, "_forget_stdout", lambda: None)
    outcome = run("fakery")
    assert outcome.code == code
    assert outcome.err.startswith(message) if message else outcome.err == ""
    assert outcome.err.count("\n") <= 1


def test_a_log_line_is_one_line_of_stderr(
    run: Run, monkeypatch: pytest.MonkeyPatch, archive: Path, caplog: object
) -> None:
    def bug(_probe: object) -> None:
        raise ZeroDivisionError("\n")

    register(monkeypatch, [fake(), fake("bug", match=bug)])
    outcome = run("ls", archive)
    assert outcome.code == 0
    assert outcome.err == f"archivefs: format bug could not look at {archive}: ZeroDivisionError('\\n')\n"


def test_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    big = write_fake(tmp_path / "big.fake", {f"{number:06}": b"" for number in range(20_000)})
    code = f"import sys; sys.path.insert(0, {str(Path(cli.__file__).parents[2])!r})\n" + (
        "from tests.fakes import fake; from archivefs import registry; from archivefs.cli import main\n"
        f"registry._loaded = registry._Loaded({{'fake': fake()}}, [])\nsys.exit(main(['ls', {str(big)!r}]))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(7) == b"000000\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 141


def test_ctrl_c_is_one_line(tmp_path: Path) -> None:
    code = (
        "import sys, time, click; from tests.fakes import fake; from archivefs import registry\n"
        "from archivefs.cli import main\n"
        "@click.command('wait')\n"
        "def wait():\n    print('ready', flush=True)\n    time.sleep(60)\n"
        "registry._loaded = registry._Loaded({'f': fake(commands=lambda: [wait], command_names=('wait',))}, [])\n"
        "sys.exit(main(['wait']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(cli.__file__).parents[2],
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        assert process.stderr.read() == b"archivefs: interrupted\n"
        assert process.wait(timeout=60) == 130


# -- commands of formats --


def test_a_formats_command_is_hung_in(run: Run) -> None:
    assert run("fakery", 0)[:2] == (0, b"fakery 0\n")
    assert run("fakery", 3)[:2] == (3, b"fakery 3\n")


def test_a_formats_command_does_not_hide_ours(run: Run, monkeypatch: pytest.MonkeyPatch, archive: Path) -> None:
    register(monkeypatch, [fake(commands=lambda: [fakery], command_names=("ls",))])
    assert run("ls", archive).code == 0


def test_debug_reaches_the_commands_in_a_group(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    group = click.Group("crawls", commands=[fakery])
    register(monkeypatch, [fake(commands=lambda: [group], command_names=("crawls",))])
    assert run("crawls", "fakery", "-d", 99).err.startswith("Traceback")
    assert run("crawls", "fakery", 4).code == 4
