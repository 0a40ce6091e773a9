"""verify, formats and doctor."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest

from archivefs.cli import doctor
from archivefs.cli.progress import Meter, bar
from archivefs.errors import CorruptArchive, UsageError
from archivefs.format import Finding, Level, PluginBroken
from tests.cli.conftest import Run
from tests.fakes import OPENED, fake, register, write_fake


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    return write_fake(tmp_path / "bad.fake", {"a": b"!damaged", "b": b"", "c": b"fine"})


@pytest.fixture
def noticed(tmp_path: Path) -> Path:
    return write_fake(tmp_path / "odd.fake", {"b": b""})


@pytest.fixture
def unreadable(tmp_path: Path) -> Path:
    path = tmp_path / "none.fake"
    path.write_bytes(b"FAKE {{{")
    return path


# -- verify --


def test_a_good_archive(run: Run, archive: Path) -> None:
    assert run("verify", archive) == (0, f"{archive}: ok\n".encode(), "")
    assert run("verify", "--json", archive).json == {"archive": str(archive), "ok": True, "findings": []}


def test_a_damaged_archive(run: Run, damaged: Path) -> None:
    outcome = run("verify", damaged)
    assert outcome.code == 1
    assert outcome.lines == [
        f"{damaged}: file 1: its checksum is wrong [bad-crc]",
        f"{damaged}: file 2: notice: not here\\n(0 jobs) [left-out]",
        f"{damaged}: damaged (1 error, 1 notice)",
    ]


def test_the_json_of_a_damaged_archive(run: Run, damaged: Path) -> None:
    outcome = run("verify", "--json", "-j", 3, damaged)
    assert outcome.code == 1
    assert outcome.json == {
        "archive": str(damaged),
        "ok": False,
        "findings": [
            {"code": "bad-crc", "level": "error", "where": "file 1", "message": "its checksum is wrong"},
            {"code": "left-out", "level": "notice", "where": "file 2", "message": "not here\n(3 jobs)"},
        ],
    }


def test_notices_are_no_failure_unless_completeness_is_asked_for(run: Run, noticed: Path) -> None:
    outcome = run("verify", noticed)
    assert (outcome.code, outcome.lines[-1]) == (0, f"{noticed}: ok (1 notice)")
    assert run("verify", "--json", noticed).json["ok"] is True
    outcome = run("verify", "--complete", noticed)
    assert (outcome.code, outcome.lines[-1]) == (1, f"{noticed}: damaged (1 error)")


def test_an_unreadable_archive(run: Run, unreadable: Path, tmp_path: Path) -> None:
    outcome = run("verify", unreadable)
    assert outcome.code == 2
    assert outcome.lines == [
        f"{unreadable}: nobody could read this [unreadable]",
        f"{unreadable}: could not be checked",
    ]
    outcome = run("verify", "--json", unreadable)
    assert outcome.code == 2
    finding = {"code": "unreadable", "level": "error", "where": "", "message": "nobody could read this"}
    assert outcome.json == {"archive": str(unreadable), "ok": False, "findings": [finding]}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone", "no such file or folder"),
        ("text", "no format recognises it (tried: fake); force one with --format NAME, or see archivefs formats"),
        (
            "folder",
            "no format recognises this folder (tried: fake); force one with --format NAME, or see archivefs formats",
        ),
    ],
)
def test_what_is_no_archive(run: Run, tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "text").write_text("text")
    (tmp_path / "folder").mkdir()
    outcome = run("verify", "--json", tmp_path / name)
    assert outcome.code == 2
    assert [(finding["code"], finding["message"]) for finding in outcome.json["findings"]] == [("unreadable", message)]


def test_several_archives(run: Run, archive: Path, damaged: Path, unreadable: Path) -> None:
    outcome = run("verify", "--json", archive, damaged)
    assert outcome.code == 1
    assert [(item["archive"], item["ok"]) for item in outcome.json] == [(str(archive), True), (str(damaged), False)]
    outcome = run("verify", unreadable, archive, damaged)
    assert outcome.code == 2
    assert outcome.lines[-1] == f"{damaged}: damaged (1 error, 1 notice)", "the others are checked all the same"


def test_a_format_without_a_check(run: Run, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, [fake(verify=None)])
    outcome = run("verify", archive)
    assert outcome.code == 2
    assert outcome.lines[0] == f"{archive}: the format fake has no check [unreadable]"


@pytest.mark.parametrize("error", [CorruptArchive("cut short", member="m"), OSError(errno.EIO, "Input/output error")])
def test_an_error_in_the_midst_keeps_what_was_found(
    run: Run, archive: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def verify(*_args: object) -> Iterable[Finding]:
        yield Finding("unreadable", Level.NOTICE, "x", "only a code of the format's own")
        raise error

    register(monkeypatch, [fake(verify=verify)])
    outcome = run("verify", "--json", archive)
    assert outcome.code == 2
    assert [finding["level"] for finding in outcome.json["findings"]] == ["notice", "error"]


def test_a_mistake_in_the_options_is_no_finding(run: Run, archive: Path) -> None:
    for args in (["-o", "color=1"], ["--format", "fak"]):
        outcome = run("verify", "--json", *args, archive)
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, b"", 1)


def test_options_reach_the_check(run: Run, archive: Path) -> None:
    assert run("verify", "-o", "colour=blue", archive).code == 0
    assert OPENED[0].opening.options["colour"] == "blue"


# -- progress --


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_and_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    meter = Meter("x.zip")
    meter(1, 2)
    meter(2, 2)  # too soon after the first
    meter.clear()
    line = "x.zip: [###############---------------]  50%"
    assert terminal.getvalue() == f"\r{line}\r{' ' * len(line)}\r"


def test_progress_is_not_shown_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    meter = Meter("x.zip")
    meter(1, 2)
    meter.clear()
    assert pipe.getvalue() == ""


@pytest.mark.parametrize(
    ("done", "total", "text"),
    [(5, 0, "5"), (0, 9, f"[{'-' * 30}]   0%"), (9, 9, f"[{'#' * 30}] 100%"), (12, 9, f"[{'#' * 30}] 100%")],
)
def test_bars(done: int, total: int, text: str) -> None:
    assert bar(done, total) == text


# -- formats --


def test_formats(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    formats = [fake(can_write=True, command_names=("fakery",)), fake("none", options=(), unavailable=lambda: "get it")]
    register(monkeypatch, formats, [PluginBroken("odd", ImportError("no\nwheels"))])
    outcome = run("formats")
    assert outcome.code == 0
    assert outcome.lines == [
        "fake: The fake format (read, write)",
        "  -o colour=VALUE  what it looks like (default: grey)",
        "  -o depth=N       how deep",
        "  -o loud          make a noise",
        "  commands: archivefs fakery",
        "none: The none format (read)",
        "  cannot be used here: get it",
        "format odd cannot be loaded: ImportError: no\\nwheels",
    ]
    fakes, none, odd = run("formats", "--json").json
    assert fakes["options"][1] == {"name": "depth", "value": "N", "default": None, "help": "how deep"}
    assert (fakes["write"], fakes["commands"], fakes["problem"]) == (True, ["fakery"], None)
    assert none["problem"] == "get it"
    assert odd == {"name": "odd", "problem": "format odd cannot be loaded: ImportError: no\\nwheels"}


# -- doctor --


PROCESS = "Name:\tpython\nCapEff:\t{effective}\nCapBnd:\t{bounding}\nNoNewPrivs:\t{no_new}\n"
ALL_RIGHTS, ALL_BUT_MOUNTING = "000001ffffffffff", "000001ffffdfffff"


@pytest.fixture
def healthy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which all is well, for an ordinary user."""
    helper = tmp_path / "fusermount3"
    helper.touch()
    helper.chmod(0o4755)
    (tmp_path / "fuse.conf").write_text("# user_allow_other\nuser_allow_other\n")
    monkeypatch.setattr(doctor, "DEVICE", "/dev/null")
    monkeypatch.setattr(doctor, "CONFIGURATION", str(tmp_path / "fuse.conf"))
    monkeypatch.setattr(doctor, "PROCESS", str(tmp_path / "status"))
    (tmp_path / "status").write_text(PROCESS.format(effective=ALL_RIGHTS, bounding=ALL_RIGHTS, no_new=0))
    monkeypatch.setattr(doctor.shutil, "which", lambda name: str(helper) if name == "fusermount3" else None)
    monkeypatch.setattr(doctor.ctypes.util, "find_library", lambda name: f"lib{name}.so.2")
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(doctor.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(doctor, "TRANSPORTS", {"fusepy": None})
    monkeypatch.setattr(doctor, "stale_mounts", lambda: iter([]))
    monkeypatch.setattr(doctor.os, "uname", lambda: SimpleNamespace(release="6.9.1-generic"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("FUSE_LIBRARY_PATH", raising=False)
    return tmp_path


def states(run: Run) -> tuple[int, dict[str, tuple[str, str]]]:
    outcome = run("doctor", "--json")
    return outcome.code, {check["name"]: (check["state"], check["mend"]) for check in outcome.json}


def test_a_healthy_machine(run: Run, healthy: Path) -> None:
    code, found = states(run)
    assert code == 0
    assert set(found.values()) == {("ok", "")}
    assert list(found) == [
        "device",
        "kernel",
        "fusermount",
        "permission",
        "libfuse",
        "binding",
        "transport",
        "allow_other",
        "config",
        "cache",
        "mounts",
        *doctor.EXTRAS,
        "format fake",
    ]
    assert "ok       transport: a mount would use fusepy" in run("doctor").lines


def test_no_device(run: Run, healthy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "DEVICE", str(healthy / "gone"))
    outcome = run("doctor")
    assert outcome.code == 1
    assert outcome.lines[0] == f"problem  device: {healthy}/gone is missing; mend it with: sudo modprobe fuse"
    assert states(run)[1]["transport"][0] == "problem"


def test_a_device_that_is_none(run: Run, healthy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (healthy / "file").touch()
    monkeypatch.setattr(doctor, "DEVICE", str(healthy / "file"))
    assert states(run)[1]["device"][0] == "problem"


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENODEV])
def test_a_device_that_does_not_open(run: Run, healthy: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_args: object) -> int:
        raise OSError(number, os.strerror(number))

    check = None
    with monkeypatch.context() as patch:
        patch.setattr(doctor.os, "open", refuse)
        check = doctor._device()
    assert check.state == "problem"
    assert check.mend == ("sudo chmod 666 /dev/null" if number == errno.EACCES else "sudo modprobe fuse")


def test_no_fusermount(run: Run, healthy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    code, found = states(run)
    assert (code, found["fusermount"]) == (1, ("problem", "sudo apt install fuse3"))
    monkeypatch.setattr(doctor.os, "geteuid", lambda: 0)
    code, found = states(run)
    assert (code, found["fusermount"][0]) == (0, "note")


def test_a_fusermount_without_its_bit(run: Run, healthy: Path) -> None:
    (healthy / "fusermount3").chmod(0o755)
    code, found = states(run)
    assert (code, found["fusermount"]) == (1, ("problem", f"sudo chmod u+s {healthy}/fusermount3"))


@pytest.mark.parametrize(
    ("user", "effective", "bounding", "no_new", "says"),
    [
        (0, ALL_RIGHTS, ALL_RIGHTS, 1, ""),
        (0, ALL_BUT_MOUNTING, ALL_RIGHTS, 0, "CAP_SYS_ADMIN"),
        (1000, "0", ALL_RIGHTS, 0, ""),
        (1000, "0", ALL_BUT_MOUNTING, 0, "CAP_SYS_ADMIN"),
        (1000, "0", ALL_RIGHTS, 1, "NoNewPrivileges="),
    ],
)
def test_a_process_that_may_not_mount(
    run: Run,
    healthy: Path,
    monkeypatch: pytest.MonkeyPatch,
    user: int,
    effective: str,
    bounding: str,
    no_new: int,
    says: str,
) -> None:
    """In a container without the right to mount doctor said that all was well."""
    (healthy / "status").write_text(PROCESS.format(effective=effective, bounding=bounding, no_new=no_new))
    monkeypatch.setattr(doctor.os, "geteuid", lambda: user)
    check = doctor._permission()
    assert (check.state, says in check.message) == ("problem" if says else "ok", True)
    code, found = states(run)
    assert (code, found["transport"][0]) == ((1, "problem") if says else (0, "ok"))


def test_a_machine_that_does_not_say(healthy: Path) -> None:
    (healthy / "status").unlink()
    assert doctor._permission().state == "ok"


def test_no_libfuse(run: Run, healthy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.ctypes.util, "find_library", lambda name: None)
    code, found = states(run)
    assert (code, found["libfuse"]) == (1, ("problem", "sudo apt install libfuse2"))
    assert found["transport"][0] == "problem"
    monkeypatch.setattr(doctor, "TRANSPORTS", {"kernel": None, "fusepy": None})
    code, found = states(run)
    assert (code, found["libfuse"][0], found["transport"][0]) == (0, "note", "ok")
    monkeypatch.setenv("FUSE_LIBRARY_PATH", "/opt/libfuse.so.2")
    assert states(run)[1]["libfuse"][0] == "ok"


def test_no_binding_and_no_extras(run: Run, healthy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    code, found = states(run)
    assert (code, found["binding"]) == (1, ("problem", "pip install fusepy"))
    assert found["zstandard"] == ("note", "pip install 'archivefs[zstd]'")
    assert found["zlib_ng"] == ("note", "pip install 'archivefs[fast]'")
    assert found["plyvel"] == ("note", "pip install 'archivefs[centidb]'")
    assert found["uvicorn"] == ("note", "pip install 'archivefs[web]'")


@pytest.mark.parametrize(
    ("release", "user", "state", "says"),
    [
        ("6.18.44-x", 0, "ok", "as root it reads"),
        ("6.9.0", 1000, "ok", "for root it would read"),
        ("6.8.12-generic", 0, "ok", "before 6.9"),
        ("3.14.0", 0, "note", "too old"),
        ("odd", 0, "note", "too old"),
    ],
)
def test_kernels(
    run: Run, healthy: Path, monkeypatch: pytest.MonkeyPatch, release: str, user: int, state: str, says: str
) -> None:
    monkeypatch.setattr(doctor.os, "uname", lambda: SimpleNamespace(release=release))
    monkeypatch.setattr(doctor.os, "geteuid", lambda: user)
    check = doctor._kernel()
    assert check.state == state
    assert says in check.message
    monkeypatch.setattr(doctor, "TRANSPORTS", {"kernel": None})
    assert states(run)[1]["transport"][0] == ("ok" if state == "ok" else "problem")


def test_a_configuration_that_is_wrong(run: Run, healthy: Path) -> None:
    path = healthy / "config" / "archivefs" / "config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("optons: {}")
    code, found = states(run)
    assert (code, found["config"]) == (1, ("problem", f"${{EDITOR:-nano}} {path}"))
    assert any(f"{path}:1: unknown key 'optons'; did you mean options?" in line for line in run("doctor").lines)
    path.write_text("options: {}")
    assert states(run) == (0, {**found, "config": ("ok", "")})


@pytest.mark.parametrize("hidden", ["", "config.yaml"])
def test_a_configuration_that_may_not_be_read(
    run: Run, healthy: Path, monkeypatch: pytest.MonkeyPatch, hidden: str
) -> None:
    """One in a folder that may not be searched was said not to be there."""
    folder = healthy / "config" / "archivefs"
    folder.mkdir(parents=True)
    path = folder / "config.yaml"
    path.write_text("options: {}")

    def refuse(*_args: object, **_more: object) -> None:
        if hidden:
            raise UsageError("the configuration cannot be read: permission denied", archive=str(path))
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(doctor, "load", refuse)
    monkeypatch.setattr(doctor.os, "access", lambda name, _mode: name != str(path))
    shown = folder / hidden if hidden else folder
    code, found = states(run)
    mend = f"sudo chown -R 1000 {shown} && chmod u+rwX {shown}"
    assert (code, found["config"]) == (1, ("problem", mend))


def test_a_cache_that_cannot_be_written(run: Run, healthy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = healthy / "cache"
    cache.write_text("")
    assert states(run)[1]["cache"] == ("note", f"rm {cache}")
    cache.unlink()
    cache.mkdir()
    monkeypatch.setattr(doctor.os, "access", lambda path, _mode: path != str(cache))
    code, found = states(run)
    assert (code, found["cache"]) == (0, ("note", f"sudo chown 1000 {cache} && chmod u+rwx {cache}"))


@pytest.mark.parametrize("home", ["/nowhere", "/", "beside"])
def test_nobody_is_told_to_take_a_folder_that_is_not_at_home(
    run: Run, healthy: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    for name in ("beside", "besides"):
        (healthy / name).mkdir()
    elsewhere = healthy / "besides"
    (elsewhere / "archivefs").mkdir()
    (elsewhere / "archivefs" / "config.yaml").write_text("options: {}")
    monkeypatch.setenv("HOME", os.path.join(healthy, home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(elsewhere))
    monkeypatch.setattr(doctor, "load", _refuse)
    monkeypatch.setattr(doctor.os, "access", lambda _path, _mode: False)
    for cache in (None, "/usr", str(elsewhere), str(elsewhere / "archivefs" / "config.yaml")):
        monkeypatch.setenv("XDG_CACHE_HOME", cache or "")
        if cache is None and home == "beside":
            continue
        outcome = run("doctor")
        assert "chown" not in outcome.text
        line = next(line for line in outcome.lines if " cache: " in line)
        assert line.endswith(": set XDG_CACHE_HOME to a folder of yours, or name one with -o index=PATH")
        assert any(line.endswith(", or name a file with -o config=PATH") for line in outcome.lines)


def _refuse(*_args: object) -> None:
    raise PermissionError(errno.EACCES, "Permission denied")


def test_dead_mounts(run: Run, healthy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = SimpleNamespace(message="the driver of the mount at /m has died", mend="archivefs umount /m")
    monkeypatch.setattr(doctor, "stale_mounts", lambda: iter([stale]))
    outcome = run("doctor")
    assert outcome.code == 1
    assert f"problem  mounts: {stale.message}; mend it with: {stale.mend}" in outcome.lines


@pytest.mark.parametrize("text", [None, "", "#user_allow_other\n", "mount_max = 1000\n"])
def test_allow_other(run: Run, healthy: Path, text: str | None) -> None:
    (healthy / "fuse.conf").unlink()
    if text is not None:
        (healthy / "fuse.conf").write_text(text)
    code, found = states(run)
    mend = f"echo user_allow_other | sudo tee -a {healthy}/fuse.conf"
    assert (code, found["allow_other"]) == (0, ("note", mend))


def test_formats_that_are_missing_something(run: Run, healthy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, [fake(unavailable=lambda: "pip install lmdb")], [PluginBroken("odd", ImportError("x"))])
    outcome = run("doctor")
    assert outcome.code == 0
    assert outcome.lines[-2:] == [
        "note     format fake: pip install lmdb",
        "note     format odd: format odd cannot be loaded: ImportError: x",
    ]
    assert json.loads(run("doctor", "--json").out)[-1]["name"] == "format odd"
