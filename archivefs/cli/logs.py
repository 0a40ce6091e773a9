"""Where the log of a mount goes, beside stderr: to a file, or once the terminal is left to the system's log.

Nobody waits for a log: what cannot be written is counted, and the next line that can be written says how much was
lost.  Every record is one line, and a minute has so many lines at most, so that no disk is filled.

Threading: a handler holds its lock while it writes.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress

from archivefs.cli.shared import severity
from archivefs.errors import BadOption, quoted
from archivefs.fuse.problems import stamp

LINES_A_MINUTE = 300
LONGEST_LINE = 2000
"""In characters: the longest names take half of that."""
SYSTEM_LOG = "/dev/log"
DAEMON = 3 << 3
"""The facility of background programs."""
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
"""In English everywhere, as the system's log wants it."""

logger = logging.getLogger("archivefs")


class BoundedLog(logging.Handler):
    """Writes records as lines; a kind of log says how."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._minute = 0.0
        self._lines = 0
        self._left_out = 0

    def emit(self, record: logging.LogRecord) -> None:
        if record.created - self._minute >= 60.0 or record.created < self._minute:
            self._say_left_out(record)
            self._minute, self._lines = record.created, 0
        self._lines += 1
        # What begins and ends a mount is told in any case.
        if self._lines > LINES_A_MINUTE and record.levelno > logging.INFO:
            self._left_out += 1
        else:
            self.write(record, quoted(record.getMessage())[:LONGEST_LINE])

    def close(self) -> None:
        """Say what was left out, and end."""
        record = logging.LogRecord(logger.name, logging.WARNING, __file__, 0, "", None, None)
        self.acquire()
        try:
            self._say_left_out(record)
        finally:
            self.release()
        super().close()

    def write(self, record: logging.LogRecord, text: str) -> None:
        """Write one line; never raises."""
        raise NotImplementedError

    def _say_left_out(self, record: logging.LogRecord) -> None:
        if self._left_out:
            self.write(record, f"{self._left_out:,} more lines were left out")
            self._left_out = 0


class LogFile(BoundedLog):
    """A file that lines are appended to.  One that is moved away, as logrotate does, is made anew."""

    def __init__(self, path: str) -> None:
        """Raises BadOption when *path* cannot be opened."""
        super().__init__()
        self._path = path
        self._lost = 0
        self._torn = False
        """The last line was written in part only."""
        try:
            self._fd, self._file = self._opened()
        except OSError as error:
            raise BadOption(f"the log file cannot be opened: {error.strerror}", archive=path) from None

    def write(self, record: logging.LogRecord, text: str) -> None:
        try:
            self._follow()
            if self._lost:
                self._append(record, f"{self._lost:,} lines could not be written here")
                self._lost = 0
            self._append(record, text)
        except OSError:
            self._lost += 1

    def close(self) -> None:
        super().close()
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _append(self, record: logging.LogRecord, text: str) -> None:
        level = record.levelname.lower()
        line = f"{stamp(record)} archivefs[{os.getpid()}] {level} {text}\n".encode("utf-8", "backslashreplace")
        if self._torn:
            line = b"\n" + line
        written = os.write(self._fd, line)
        if written < len(line):
            self._torn = True
            raise OSError("a part of a line")
        self._torn = False

    def _follow(self) -> None:
        """Go on in a new file if ours is no longer there."""
        try:
            there = os.stat(self._path)
        except OSError:  # gone, or in a folder that is closed to us now
            there = None
        if there is None or (there.st_dev, there.st_ino) != self._file:
            with suppress(OSError):  # then in the old one
                fd, self._file = self._opened()
                os.close(self._fd)
                self._fd = fd

    def _opened(self) -> tuple[int, tuple[int, int]]:
        # Not to wait for the reader of a pipe.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        fd = os.open(self._path, flags, 0o600)
        state = os.fstat(fd)
        return fd, (state.st_dev, state.st_ino)


class SystemLog(BoundedLog):
    """The log of the system, which is the journal's where there is one.  Where there is none, nothing is written."""

    def __init__(self, address: str) -> None:
        import socket

        super().__init__()
        self._address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)

    def write(self, record: logging.LogRecord, text: str) -> None:
        now = time.localtime(record.created)
        when = f"{MONTHS[now.tm_mon - 1]} {now.tm_mday:2} {time.strftime('%H:%M:%S', now)}"
        line = f"<{DAEMON | severity(record.levelno)}>{when} archivefs[{os.getpid()}]: {text}"
        with suppress(OSError):  # nobody listens, or does not read
            self._socket.sendto(line.encode("utf-8", "backslashreplace"), self._address)

    def close(self) -> None:
        super().close()
        self._socket.close()


class MountLog:
    """The logs of a mount: a file from the beginning, or the system's log from when nobody sees stderr any more."""

    def __init__(self, path: str | None) -> None:
        """Raises BadOption when the file cannot be opened."""
        self._handler: BoundedLog | None = None
        if path is not None:
            self._add(LogFile(path))

    def leave_terminal(self) -> None:
        """Nobody sees stderr from now on."""
        if self._handler is None:
            self._add(SystemLog(SYSTEM_LOG))

    def tell(self, message: str) -> None:
        """Write an error here alone, which who called us is told as well."""
        if self._handler is not None:
            self._handler.handle(logging.LogRecord(logger.name, logging.ERROR, __file__, 0, "%s", (message,), None))

    def close(self) -> None:
        """Nothing more will come."""
        handler, self._handler = self._handler, None
        if handler is not None:
            logger.removeHandler(handler)
            handler.close()

    def _add(self, handler: BoundedLog) -> None:
        self._handler = handler
        logger.addHandler(handler)
        if not logger.isEnabledFor(logging.INFO):
            logger.setLevel(logging.INFO)
