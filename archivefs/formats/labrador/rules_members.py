"""The rules for the zip around a site: safe and unique names, the three special files, the folder ``www``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from archivefs.errors import ArchiveError
from archivefs.format import Finding
from archivefs.formats.labrador.container import MAGIC, MIMETYPE, SITE, SPECIAL_FILES, Container
from archivefs.formats.labrador.findings import error, member_name, notice, unreadable
from archivefs.zips.members import stream_member

_DRIVE = re.compile(rb"[A-Za-z]:")
_GOOD, _UNSAFE, _REPEATED = 0, 1, 2


class Members:
    """The members of an archive, each with its lower-cased name and what is to be thought of it."""

    def __init__(self, container: Container) -> None:
        self.container = container
        self._verdicts = bytearray(map(self._judge, range(len(container.directory))))

    def _judge(self, member: int) -> int:
        name = self.name(member)
        if not is_safe(name):
            return _UNSAFE
        return _GOOD if self.container.find(name) == member else _REPEATED

    def name(self, member: int) -> bytes:
        """The name in lower case."""
        return self.container.directory.name(member).lower()

    def is_safe(self, member: int) -> bool:
        """Does its name lead nowhere else?"""
        return self._verdicts[member] != _UNSAFE

    def is_repeated(self, member: int) -> bool:
        """Has an earlier member its name?  Such a one is not looked at any further."""
        return self._verdicts[member] == _REPEATED

    def good(self) -> Iterator[tuple[int, bytes]]:
        """Those with safe names, the first of each name: number and lower-cased name."""
        for member, verdict in enumerate(self._verdicts):
            if verdict == _GOOD:
                yield member, self.name(member)

    def stored(self) -> Iterator[tuple[int, bytes]]:
        """The files of the site: number and lower-cased key."""
        for member, name in self.good():
            if name.startswith(SITE) and not name.endswith(b"/"):
                yield member, name[len(SITE) :]


def is_safe(name: bytes) -> bool:
    """Would a member of this name be unpacked where it belongs?"""
    if b"\\" in name or b"\0" in name or _DRIVE.match(name):
        return False
    return not {b"", b".", b".."} & set(name.removesuffix(b"/").split(b"/"))


def findings(members: Members) -> Iterator[Finding]:
    """Everything that is wrong with the zip itself."""
    yield from _names(members)
    yield from _special_files(members)
    yield from _site(members)


def _names(members: Members) -> Iterator[Finding]:
    container = members.container
    for member in range(len(container.directory)):
        name = members.name(member)
        if not members.is_safe(member):
            yield error("zip-unsafe-path", member_name(container, member), "would be unpacked where it does not belong")
        elif members.is_repeated(member):
            message = "another member has this name (case does not count)"
            yield error("zip-duplicate-member", member_name(container, member), message)
        elif not name.startswith(SITE) and name not in SPECIAL_FILES:
            yield notice(
                "extra-member", member_name(container, member), "belongs neither to the site nor to the format"
            )


# -- mimetype, extmime, manifest --


def _special_files(members: Members) -> Iterator[Finding]:
    container = members.container
    for name in SPECIAL_FILES:
        if container.find(name) is None:
            yield error("missing-file", name.decode(), "is not there")
    yield from _order(members)
    mimetype = container.find(MIMETYPE)
    if mimetype is None:
        return
    if container.directory.method(mimetype) != 0:
        yield error("mimetype-compressed", "mimetype", "must be stored without compression")
    try:
        container.check_method(mimetype)
        content = b"".join(islice(stream_member(container.directory, mimetype, 64), 2))
    except ArchiveError as problem:
        yield unreadable(container, mimetype, problem)
    else:
        if content != MAGIC:
            yield error("mimetype-value", "mimetype", f"must be {MAGIC.decode()} and nothing else")


def _order(members: Members) -> Iterator[Finding]:
    """Whether the special files come first, in the zip's directory and in the file itself."""
    directory = members.container.directory
    everything = [member for member in range(len(directory)) if not members.is_repeated(member)]
    for what, order in (
        ("in the zip's directory", everything),
        ("in the file", sorted(everything, key=directory.offset)),
    ):
        problem = _order_problem(members, order)
        if problem:
            yield error("file-order", problem, f"is not at its place {what}: mimetype, extmime, manifest come first")
            return


def _order_problem(members: Members, order: list[int]) -> str | None:
    expected = [name for name in SPECIAL_FILES if members.container.find(name) is not None]
    if MIMETYPE in expected and members.name(order[0]) != MIMETYPE:
        return "mimetype"
    files = islice((name for member in order if not (name := members.name(member)).endswith(b"/")), len(expected))
    for name, found in zip(expected, files, strict=True):
        if name != found:
            return name.decode()
    return None


# -- www --


def _site(members: Members) -> Iterator[Finding]:
    needed: set[bytes] = set()
    for _, key in members.stored():
        directory = (SITE + key)[: (SITE + key).rfind(b"/") + 1]
        while directory and directory not in needed:
            needed.add(directory)
            directory = directory[: directory.rfind(b"/", 0, -1) + 1]
    if not needed and members.container.find(SITE) is None:
        yield error("www-missing", "www/", "is not there, and there is no file in it")
    for member, name in members.good():
        if name.startswith(SITE) and name.endswith(b"/") and name != SITE and name not in needed:
            yield error("www-extra-directory", member_name(members.container, member), "holds no stored file")
