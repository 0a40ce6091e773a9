"""Every error has a message, an exit code, and its place in every front-end's table."""

from __future__ import annotations

import errno
import importlib
import pkgutil
import re

import pytest

import archivefs
from archivefs import errors
from archivefs.errors import ESCAPED, ArchiveError, NotFound, quoted, reason, told_as
from archivefs.fuse.errnos import ERRNOS, to_errno


def all_errors() -> list[type[ArchiveError]]:
    """The family, with whatever a module beside errors.py adds to it."""
    for module in pkgutil.walk_packages(archivefs.__path__, "archivefs."):
        if not module.name.endswith("__main__"):
            _import(module.name)
    found: list[type[ArchiveError]] = [ArchiveError]
    for cls in found:
        found += [child for child in cls.__subclasses__() if child not in found]
    return [cls for cls in found if cls.__module__.startswith("archivefs.")]


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        # An extra need not be installed; a module of our own must be.
        assert not (error.name or "").startswith("archivefs"), error


ALL = all_errors()
MEANT_AS_EINVAL = {"SymlinkExpected", "NameNotHeld", "ContentRefused"}
OURS = [cls for cls in ALL if cls.__module__ == errors.__name__]


def test_the_walk_finds_the_family() -> None:
    assert {ArchiveError, NotFound, errors.StaleNode, errors.UnknownFormat} <= set(ALL)
    assert {cls.__name__ for cls in OURS} == set(re.findall(r"^class (\w+)\(", _source(), re.MULTILINE))


def _source() -> str:
    with open(errors.__file__, encoding="utf-8") as file:
        return file.read()


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_it_has_a_message_of_one_line(cls: type[ArchiveError]) -> None:
    assert cls.__doc__, "the docstring is the user's message"
    assert cls.__doc__ is not cls.__base__.__doc__
    message = str(cls())
    assert message
    assert "\n" not in message
    assert message == cls.default_problem()
    assert not message.endswith(".")


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_it_has_an_exit_code_of_ours(cls: type[ArchiveError]) -> None:
    assert cls.exit_code in (1, 2)


@pytest.mark.parametrize("cls", OURS, ids=lambda cls: cls.__name__)
def test_it_has_an_errno(cls: type[ArchiveError]) -> None:
    assert cls in ERRNOS
    assert ERRNOS[cls] in errno.errorcode
    assert to_errno(cls()) == ERRNOS[cls]


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_only_what_the_caller_got_wrong_is_einval(cls: type[ArchiveError]) -> None:
    """Over fusepy a crash looks like EINVAL, so damage never may."""
    assert (to_errno(cls()) == errno.EINVAL) == (cls.__name__ in MEANT_AS_EINVAL)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x"),
        OSError("no errno"),
        OSError(0, "zero"),
        OSError(errno.EINVAL, "x"),
        KeyboardInterrupt(),
        SystemExit(),
    ],
    ids=repr,
)
def test_whatever_else_is_raised_is_eio(error: BaseException) -> None:
    assert to_errno(error) == errno.EIO


@pytest.mark.parametrize("cls", OURS, ids=lambda cls: cls.__name__)
def test_it_is_drawn_in_the_family_tree(cls: type[ArchiveError]) -> None:
    drawn = (errors.__doc__ or "").splitlines()
    assert any(re.match(rf"[ │├└─]*{cls.__name__}\b", line) for line in drawn)


def test_a_message_says_which_archive_which_member_what_and_what_to_do() -> None:
    error = errors.CorruptMember("digest is wrong", archive="a.zip", member="m", advice="restore it")
    assert str(error) == "a.zip: m: digest is wrong; restore it"


def test_names_in_a_message_cannot_break_the_line() -> None:
    error = NotFound(archive="a\nb", member=b"c\xff\x1b")
    assert str(error) == "a\\nb: c\\xff\\x1b: no such file or directory"
    assert quoted("ä ✓\t\u202e\udcff") == "ä ✓\\t\\u202e\\xff"
    assert quoted("a\\b\udc80") == quoted(b"a\\b\x80") == "a\\b\\x80"


def test_what_an_output_cannot_encode_is_escaped_in_the_same_way() -> None:
    assert "é✓\udcff\ud800\\".encode("utf-8", ESCAPED).decode() == "é✓\\xff\\ud800\\"
    assert "✓\udc80".encode("ascii", ESCAPED) == b"\\u2713\\x80"
    with pytest.raises(UnicodeDecodeError):
        b"\xff".decode("utf-8", ESCAPED)


def test_errors_of_the_system_are_told_without_numbers() -> None:
    assert reason(OSError(30, "Read-only file system", "/media/a.yaml")) == "/media/a.yaml: Read-only file system"
    assert reason(OSError(28, "No space left on device", b"b.zip")) == "b.zip: No space left on device"
    assert reason(OSError(5, "Input/output error")) == "Input/output error"
    assert reason(OSError("without an errno")) == "without an errno"
    assert reason(NotFound(member="a")) == "a: no such file or directory"


def test_a_temporary_name_is_not_told() -> None:
    with pytest.raises(FileNotFoundError) as caught, told_as("/site.zip", "/.site.zip.new"):
        raise FileNotFoundError(2, "No such file or directory", "/.site.zip.new")
    assert reason(caught.value) == "/site.zip: No such file or directory"
    with pytest.raises(OSError) as caught, told_as("/site.zip", "/.site.zip.new"):
        raise OSError(5, "Input/output error", "/other")
    assert reason(caught.value) == "/other: Input/output error"
