"""The logs of a mount, without a mount: files that are moved or full, a system's log that is not there, floods."""

from __future__ import annotations

import logging
import os
import re
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from archivefs.cli import logs, shared
from archivefs.cli.logs import LogFile, MountLog, SystemLog
from archivefs.errors import BadOption

STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d archivefs\[\d+\] "


def record(text: str, level: int = logging.ERROR, *, at: float | None = None) -> logging.LogRecord:
    made = logging.LogRecord("archivefs.test", level, __file__, 0, "%s", (text,), None)
    made.created = made.created if at is None else at
    return made


def lines(path: Path) -> list[str]:
    """The lines of a log file, each with its level, its time taken off."""
    found = path.read_text().splitlines()
    assert all(re.match(STAMP, line) for line in found), found
    return [re.sub(STAMP, "", line) for line in found]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mount.log"


@pytest.fixture
def log(path: Path) -> Iterator[LogFile]:
    log = LogFile(str(path))
    yield log
    log.close()


# -- a file --


def test_lines_are_appended_to_a_file_of_ones_own(path: Path) -> None:
    for text in ("one", "two"):
        log = LogFile(str(path))
        log.handle(record(text, logging.WARNING))
        log.close()
    assert lines(path) == ["warning one", "warning two"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_was_there_keeps_its_permissions(path: Path) -> None:
    path.touch()
    path.chmod(0o640)
    LogFile(str(path)).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_record_is_one_line_whatever_is_in_it(log: LogFile, path: Path) -> None:
    log.handle(record("a\nb\x1b[31m\r\u202e\udcff é"))
    assert lines(path) == ["error a\\nb\\x1b[31m\\r\\u202e\\xff é"]


def test_a_file_that_is_moved_away_is_made_anew(log: LogFile, path: Path) -> None:
    log.handle(record("one"))
    path.rename(path.with_name("mount.log.1"))
    log.handle(record("two"))
    path.unlink()
    log.handle(record("three"))
    assert lines(path.with_name("mount.log.1")) == ["error one"]
    assert lines(path) == ["error three"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_where_it_cannot_be_made_anew_it_goes_on_in_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    log = LogFile(str(tmp_path / "logs" / "mount.log"))
    (tmp_path / "logs").rename(tmp_path / "old")
    log.handle(record("one"))
    log.close()
    assert lines(tmp_path / "old" / "mount.log") == ["error one"]


def test_where_its_folder_cannot_be_looked_into_it_goes_on_too(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    log = LogFile(str(tmp_path / "logs" / "mount.log"))
    (tmp_path / "logs").rename(tmp_path / "old")
    (tmp_path / "logs").touch()
    log.handle(record("one"))
    log.close()
    assert lines(tmp_path / "old" / "mount.log") == ["error one"]


def test_a_full_disk_is_survived_and_told(log: LogFile, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = [0, 10]  # nothing, then a part of a line

    def write(fd: int, data: bytes) -> int:
        if not room:
            return os.pwrite(fd, data, os.fstat(fd).st_size)
        size = room.pop(0)
        if not size:
            raise OSError(28, "No space left on device")
        return os.pwrite(fd, data[:size], os.fstat(fd).st_size)

    monkeypatch.setattr(logs.os, "write", write)
    for text in ("lost", "torn", "there again"):
        log.handle(record(text))
    torn, *rest = path.read_text().splitlines()
    assert len(torn) == 10
    assert [re.sub(STAMP, "", line) for line in rest] == [
        "error 2 lines could not be written here",
        "error there again",
    ]


def test_dev_full_is_no_failure() -> None:
    log = LogFile("/dev/full")
    log.handle(record("one"))
    log.close()


@pytest.mark.parametrize("bad", ["", "missing/mount.log", "file/mount.log", "pipe"])
def test_a_file_that_cannot_be_opened_is_a_wrong_option(tmp_path: Path, bad: str) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")  # which nobody reads
    with pytest.raises(BadOption, match="the log file cannot be opened"):
        LogFile(str(tmp_path / bad))


# -- floods --


def test_a_minute_has_so_many_lines_at_most(log: LogFile, path: Path) -> None:
    for number in range(10_000):
        log.handle(record(f"problem {number}", at=1000.0 + number / 1000))
    assert lines(path) == [f"error problem {number}" for number in range(logs.LINES_A_MINUTE)]
    log.handle(record("a minute later", at=1060.0))
    assert lines(path)[logs.LINES_A_MINUTE :] == ["error 9,700 more lines were left out", "error a minute later"]


def test_that_a_mount_ends_is_told_in_a_flood_too(log: LogFile, path: Path) -> None:
    for number in range(logs.LINES_A_MINUTE + 5):
        log.handle(record(f"problem {number}", at=1000.0))
    end = record("unmounted", at=1000.0)
    end.levelno, end.levelname = logging.INFO, "INFO"
    log.handle(end)
    assert lines(path)[-1] == "info unmounted"


def test_what_was_left_out_is_told_at_the_end(path: Path) -> None:
    log = LogFile(str(path))
    for number in range(logs.LINES_A_MINUTE + 5):
        log.handle(record(f"problem {number}", at=1000.0))
    log.close()
    assert lines(path)[-1] == "warning 5 more lines were left out"


def test_a_clock_that_goes_back_does_not_silence_it(log: LogFile, path: Path) -> None:
    for number in range(logs.LINES_A_MINUTE + 5):
        log.handle(record(f"problem {number}", at=1e9))
    log.handle(record("earlier", at=1e8))
    assert lines(path)[-1] == "error earlier"


# -- the system's log --


class Listener:
    """What listens at /dev/log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(5)

    def heard(self) -> str:
        return self.socket.recv(1 << 16).decode()

    def end(self) -> None:
        self.socket.close()
        self.path.unlink()


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    listener = Listener(tmp_path / "log")
    yield listener
    listener.socket.close()


def test_a_record_is_said_as_syslog_says_it(listener: Listener) -> None:
    log = SystemLog(str(listener.path))
    for level, priority in ((logging.INFO, 30), (logging.WARNING, 28), (logging.ERROR, 27), (logging.CRITICAL, 26)):
        log.handle(record("what\nis wrong", level))
        heard = listener.heard()
        assert re.fullmatch(
            rf"<{priority}>[A-Z][a-z]{{2}} [ 123]\d \d\d:\d\d:\d\d archivefs\[{os.getpid()}\]: what\\nis wrong", heard
        )
    log.close()


def test_one_that_is_started_again_is_found(listener: Listener, tmp_path: Path) -> None:
    log = SystemLog(str(listener.path))
    log.handle(record("one"))
    assert listener.heard().endswith("one")
    listener.end()
    log.handle(record("lost"))
    again = Listener(tmp_path / "log")
    log.handle(record("two"))
    assert again.heard().endswith("two")
    again.end()
    log.close()


def test_one_that_does_not_read_is_not_waited_for(listener: Listener) -> None:
    log = SystemLog(str(listener.path))
    for number in range(logs.LINES_A_MINUTE):
        log.handle(record(f"{number} " + "ü" * 100_000))
    log.close()
    assert len(listener.heard().split("]: ")[1]) == logs.LONGEST_LINE


# -- of a mount --


@pytest.fixture
def quiet_logger(monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    logger = logging.getLogger("archivefs")
    level, handlers = logger.level, list(logger.handlers)
    yield logger
    logger.setLevel(level)
    logger.handlers[:] = handlers


def test_a_mount_has_a_file_or_the_log_of_the_system(
    path: Path, listener: Listener, quiet_logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "SYSTEM_LOG", str(listener.path))
    for name in (str(path), None):
        log = MountLog(name)
        quiet_logger.info("before")
        log.leave_terminal()
        quiet_logger.info("after")
        log.tell("the end")
        log.close()
    assert lines(path) == ["info before", "info after", "error the end"]
    assert [listener.heard().split("]: ")[1] for _ in range(2)] == ["after", "the end"]


# -- stderr --


def test_in_a_service_a_line_says_how_grave_it_is(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    state = os.fstat(2)
    monkeypatch.setenv("JOURNAL_STREAM", f"{state.st_dev}:{state.st_ino}")
    shared.tell("it is\nbroken")
    shared.tell("it is mounted", logging.INFO)
    monkeypatch.setenv("JOURNAL_STREAM", f"{state.st_dev}:{state.st_ino + 1}")
    shared.tell("somebody else's journal")
    assert capfd.readouterr().err == "<3>it is\\nbroken\n<6>it is mounted\narchivefs: somebody else's journal\n"
