"""A URL database: a folder with one file a domain (specification 1), as it is now.

Threading: every method may be called from any thread; one lock guards the table of domains, whose files never change
once they are read.  A change holds the kernel's lock (flock) on the folder from reading to replacing, so programs that
do the same never lose each other's changes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from archivefs.errors import NotFound, SourceBusy, UnreadableArchive, quoted
from archivefs.formats.urldb.domainfile import DomainFile, Stamp
from archivefs.formats.urldb.limits import DEFAULT, Limits
from archivefs.formats.urldb.lint import LintFinding, hidden, lint_file, lint_names
from archivefs.formats.urldb.records import SUFFIX, domain_of_file
from archivefs.staging.replace import replacing

log = logging.getLogger("archivefs.formats.urldb")

LOOK_EVERY_S = 0.5
"""Changes by others are seen after this long."""
LOCK_WAIT_S = 5.0
KEPT_BYTES = 128 << 20
"""How much of all files together stays in memory; the rest is read again when it is needed."""

Edit = Callable[[DomainFile], "DomainFile | None"]
"""Makes a new file of an old one; None: there is nothing to do."""


class Unreadable(NamedTuple):
    """A domain whose file cannot be used at all."""

    name: str
    stamp: Stamp
    code: str
    text: str

    def finding(self) -> LintFinding:
        """What the lint says."""
        return LintFinding(self.name + SUFFIX, 1, self.code, self.text)


class Database:
    """All domains of a folder."""

    def __init__(self, path: str, limits: Limits = DEFAULT) -> None:
        self.path = path
        self.limits = limits
        self.generation = 0
        """Grows with every change by somebody else."""
        self.version = 0
        """Grows with every change."""
        self._lock = threading.RLock()
        self._files: dict[str, DomainFile | Unreadable] = {}
        self._aliases: dict[str, str] = {}
        self._next_look = 0.0
        if not os.path.isdir(path):
            raise UnreadableArchive("a URL database is a folder", archive=path)
        self._look()
        self.generation = 0

    # -- looking --

    def refresh(self) -> None:
        """See what others have changed, if nobody has looked lately."""
        if time.monotonic() >= self._next_look:
            with self._lock:
                if time.monotonic() >= self._next_look:
                    self._look()

    def names(self) -> list[str]:
        """The domains, in order."""
        self.refresh()
        with self._lock:
            return sorted(self._files)

    def aliases(self) -> dict[str, str]:
        """The domain each alias stands for."""
        self.refresh()
        return self._aliases

    def find(self, name: str) -> DomainFile | Unreadable | None:
        """The file of a domain."""
        self.refresh()
        return self._files.get(name)

    def domain(self, name: str) -> DomainFile:
        """The file of a domain; raises NotFound."""
        found = self.find(name)
        if not isinstance(found, DomainFile):
            raise NotFound(member=name)
        return found

    def domain_of_host(self, host: str) -> DomainFile | None:
        """The file for a host, by its own name or by an alias; case does not count."""
        host = host.lower()
        found = self.find(self.aliases().get(host, host))
        return found if isinstance(found, DomainFile) else None

    def domains(self) -> list[DomainFile]:
        """All that can be read, in order."""
        files = [self.find(name) for name in self.names()]
        return [file for file in files if isinstance(file, DomainFile)]

    def _look(self) -> None:
        seen = {}
        for name, path in self._paths():
            old = self._files.get(name)
            try:
                state = os.stat(path)
                same = old is not None and old.stamp == Stamp.of(state)
                if stat.S_ISREG(state.st_mode):
                    seen[name] = old if same and old is not None else self._read(name, path)
            except FileNotFoundError:
                continue
            except OSError as error:
                text = (error.strerror or str(error)).lower()
                seen[name] = Unreadable(name, Stamp(), "unreadable", text)
        if seen != self._files:
            self._take(seen)
            self.generation += 1
        self._next_look = time.monotonic() + LOOK_EVERY_S

    def _take(self, files: dict[str, DomainFile | Unreadable]) -> None:
        self._files = files
        self._aliases = _aliases(files)
        self.version += 1
        kept = 0
        for file in files.values():
            if isinstance(file, DomainFile):
                kept += file.kept
                if kept > KEPT_BYTES:
                    file.drop_data()

    def _paths(self) -> list[tuple[str, str]]:
        found = []
        for name in os.listdir(self.path):
            domain = domain_of_file(name)
            if domain is not None:
                found.append((domain, os.path.join(self.path, name)))
        return sorted(found)

    def _read(self, name: str, path: str) -> DomainFile | Unreadable:
        """Read a file that may be replaced or written meanwhile."""
        while True:
            with open(path, "rb") as file:
                stamp = Stamp.of(os.fstat(file.fileno()))
                if stamp.size > self.limits.file:
                    return Unreadable(name, stamp, "too-big", f"larger than {self.limits.file} bytes")
                data = file.read(stamp.size + 1)
                if len(data) == stamp.size and Stamp.of(os.fstat(file.fileno())) == stamp:
                    return DomainFile(name, data, stamp=stamp, path=path, limits=self.limits)

    # -- the lint --

    def bad_names(self) -> list[str]:
        """Files that look like a domain's, but for their name."""
        found = []
        for name in sorted(os.listdir(self.path)):
            odd = name.endswith(SUFFIX) and not name.startswith(".") and domain_of_file(name) is None
            if odd and os.path.isfile(os.path.join(self.path, name)):
                found.append(name)
        return found

    def lint(self, progress: Callable[[int, int], None] = lambda _done, _total: None) -> Iterator[LintFinding]:
        """All findings, by file and line."""
        findings = [LintFinding(name, 1, "bad-domain-name", "no name of a domain") for name in self.bad_names()]
        names = self.names()
        between = list(lint_names(self.domains()))
        for number, name in enumerate(names):
            file = self.find(name)
            if isinstance(file, DomainFile):
                mine = [finding for finding in between if finding.file == name + SUFFIX]
                findings += sorted([*lint_file(file), *mine], key=lambda finding: finding.line)
            elif file is not None:
                findings.append(file.finding())
            progress(number + 1, len(names))
        yield from sorted(findings, key=lambda finding: (finding.file, finding.line))

    def hidden(self, name: str) -> list[LintFinding]:
        """What cannot be shown of a domain."""
        file = self.find(name)
        if isinstance(file, DomainFile):
            return list(hidden(file)) if file.has_hidden() else []
        return [file.finding()] if file is not None else []

    # -- changing --

    def file_path(self, name: str) -> str:
        """Where the file of a domain is, behind a symbolic link if it is one."""
        return os.path.realpath(os.path.join(self.path, name + SUFFIX))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else changes anything meanwhile, as far as they keep to the same lock; what is known is fresh."""
        with self._lock:
            fd = _lock_folder(self.path)
            try:
                self._look()
                yield
            finally:
                os.close(fd)

    def change(self, name: str, edit: Edit, *, mtime_ns: int | None = None) -> DomainFile:
        """Replace a domain's file by what *edit* makes of it; raises NotFound, SourceBusy and what *edit* raises.

        *mtime_ns*: the time that somebody was already told, so that an editor does not think that the file has changed
        since it wrote it.
        """
        with self.locked():
            old = self.domain(name)
            new = edit(old)
            if new is None:
                return old
            if not old.is_sorted:
                log.warning("%s", quoted(f"{name}{SUFFIX} was not in order, and is written back sorted"))
            return self._store(name, new, mtime_ns)

    def create(self, name: str, data: bytes = b"---\n", *, mtime_ns: int | None = None) -> DomainFile:
        """Make the file of a new domain, or replace all of an old one."""
        with self.locked():
            return self._store(name, DomainFile(name, data, limits=self.limits), mtime_ns)

    def remove(self, name: str) -> None:
        """Remove a domain's file."""
        with self.locked():
            os.unlink(os.path.join(self.path, name + SUFFIX))
            self._take({key: file for key, file in self._files.items() if key != name})

    def _store(self, name: str, new: DomainFile, mtime_ns: int | None) -> DomainFile:
        path = self.file_path(name)
        with replacing(path, mode=0o666) as file:
            file.write(new.data)
            if mtime_ns is not None:
                file.flush()
                os.utime(file.fileno(), ns=(mtime_ns, mtime_ns))
        new.settle(path, Stamp.of(os.stat(path)))
        self._take({**self._files, name: new})
        return new


def _aliases(files: dict[str, DomainFile | Unreadable]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in sorted(files):
        file = files[name]
        for alias in file.metadata.cnames if isinstance(file, DomainFile) else ():
            if alias not in files:
                found.setdefault(alias, name)
    return found


def _lock_folder(path: str) -> int:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    end = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES) or time.monotonic() > end:
                os.close(fd)
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    raise
                raise SourceBusy("another program is changing it", archive=path) from None
        time.sleep(0.005)
