"""A mount from its beginning to its end: detaching, refusals, signals, dead drivers."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.mount.harness import Mount, mount_points, mounted, run_archivefs, wait_until
from tests.samples.zips import write_tree
from tests.walking import state_of

CONTENT = {"hello.txt": b"hello", "folder": {"deep.txt": b"deep", "up": "../hello.txt"}}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "archive.zip", CONTENT)


@pytest.fixture
def point(tmp_path: Path):
    """A mount point that does not exist yet; whatever is left there is taken away."""
    path = tmp_path / "mnt"
    yield path
    if str(path) in mount_points():
        subprocess.run(["fusermount3", "-uz", str(path)], check=False)


def one_line(text: str) -> str:
    """The one line that *text* is; no traceback, no second line."""
    assert text.endswith("\n")
    assert text.count("\n") == 1, text
    return text[:-1]


# -- beginning --


def test_the_command_returns_when_the_mount_is_usable(archive: Path, point: Path, transport: str) -> None:
    done = run_archivefs("mount", "-o", f"transport={transport}", archive, point)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert sorted(os.listdir(point)) == ["folder", "hello.txt"]
    assert (point / "hello.txt").read_bytes() == b"hello"
    done = run_archivefs("umount", point)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert str(point) not in mount_points()
    assert wait_until(lambda: not point.exists()), "a mount point that was created is removed again"


def test_relative_paths_mean_what_they_meant(archive: Path, point: Path, transport: str) -> None:
    done = run_archivefs("mount", "-o", f"transport={transport}", "archive.zip", "mnt", cwd=archive.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert (point / "folder" / "deep.txt").read_bytes() == b"deep"
    assert run_archivefs("umount", "mnt", cwd=archive.parent).returncode == 0


def test_a_mount_point_that_was_there_stays(archive: Path, point: Path, transport: str) -> None:
    point.mkdir()
    with mounted(archive, at=point, transport=transport):
        assert (point / "hello.txt").exists()
    assert point.is_dir()
    assert os.listdir(point) == []


def test_the_archive_and_its_folder_stay_as_they_were(archive: Path, tmp_path: Path, transport: str) -> None:
    before = state_of(archive)
    folder_before = sorted(os.listdir(tmp_path))
    with mounted(archive, at=tmp_path / "mnt", transport=transport) as mount:
        assert (mount.path / "hello.txt").read_bytes() == b"hello"
    assert state_of(archive) == before
    assert sorted(os.listdir(tmp_path)) == folder_before


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"no archive at all", "archive.bin"), (b"", "archive.bin"), (b"PK\5\6", "archive.bin")],
)
def test_what_is_no_archive_is_refused_before_detaching(
    tmp_path: Path, point: Path, content: bytes, says: str, transport: str
) -> None:
    (tmp_path / "archive.bin").write_bytes(content)
    done = run_archivefs("mount", "-o", f"transport={transport}", tmp_path / "archive.bin", point)
    assert done.returncode == 2
    assert done.stdout == ""
    assert says in one_line(done.stderr)
    assert str(point) not in mount_points()
    assert not point.exists()


def test_a_missing_archive_is_refused(tmp_path: Path, point: Path) -> None:
    done = run_archivefs("mount", tmp_path / "missing.zip", point)
    assert done.returncode == 2
    assert "missing.zip" in one_line(done.stderr)
    assert not point.exists()


def test_a_mount_point_with_something_in_it_is_refused(archive: Path, point: Path) -> None:
    point.mkdir()
    (point / "something").write_bytes(b"")
    done = run_archivefs("mount", archive, point)
    assert done.returncode == 1
    assert "not empty" in one_line(done.stderr)
    assert os.listdir(point) == ["something"]


def test_a_mount_point_that_is_a_file_is_refused(archive: Path, point: Path) -> None:
    point.write_bytes(b"precious")
    done = run_archivefs("mount", archive, point)
    assert done.returncode == 1
    assert "not a directory" in one_line(done.stderr)
    assert point.read_bytes() == b"precious"


@pytest.mark.parametrize("inside", ["mnt", "sub/mnt", "."])
def test_a_mount_point_inside_the_archive_is_refused(tmp_path: Path, inside: str) -> None:
    folder = tmp_path / "archives"
    (folder / "sub").mkdir(parents=True)
    write_tree(folder / "archive.zip", CONTENT)
    before = state_of(folder)
    done = run_archivefs("mount", folder, folder / inside)
    assert done.returncode == 1
    assert "inside" in one_line(done.stderr)
    assert state_of(folder) == before


def test_the_archive_itself_is_no_mount_point(archive: Path) -> None:
    before = state_of(archive)
    done = run_archivefs("mount", archive, archive)
    assert done.returncode == 1
    one_line(done.stderr)
    assert state_of(archive) == before


# -- options --


def mount_line(point: Path) -> tuple[str, str, set[str]]:
    """Source, type and options of a mount, as the system shows them."""
    with open("/proc/self/mounts") as lines:
        for line in lines:
            source, at, kind, options, *_ = line.split(" ")
            if at == str(point):
                return source, kind, set(options.split(","))
    pytest.fail(f"{point} is not mounted")


def test_owner_and_masks_can_be_chosen(archive: Path, point: Path, transport: str) -> None:
    options = "uid=12,gid=34,fmask=137,dmask=027"
    with mounted(archive, at=point, transport=transport, options=options):
        file, folder = os.stat(point / "hello.txt"), os.stat(point / "folder")
        assert (file.st_uid, file.st_gid, folder.st_uid, folder.st_gid) == (12, 34, 12, 34)
        assert file.st_mode & 0o7777 == 0o444 & ~0o137
        assert folder.st_mode & 0o7777 == 0o555 & ~0o027


def test_umask_is_for_both(archive: Path, point: Path, transport: str) -> None:
    with mounted(archive, at=point, transport=transport, options="umask=077"):
        assert os.stat(point / "hello.txt").st_mode & 0o7777 == 0o400
        assert os.stat(point / "folder").st_mode & 0o7777 == 0o500


def test_the_system_shows_what_it_is(archive: Path, point: Path, transport: str) -> None:
    with mounted(archive, at=point, transport=transport):
        source, kind, options = mount_line(point)
        assert kind == "fuse.archivefs"
        assert source.endswith("archive.zip") or source == "archivefs"
        assert {"ro", "nosuid", "nodev"} <= options


def test_fsname_and_subtype_can_be_chosen(archive: Path, point: Path, transport: str) -> None:
    with mounted(archive, at=point, transport=transport, options="fsname=here,subtype=website"):
        source, kind, _ = mount_line(point)
        assert (source, kind) == ("here", "fuse.website")


def test_words_of_mount8_are_accepted_and_dev_and_suid_do_nothing(archive: Path, point: Path, transport: str) -> None:
    options = "dev,suid,_netdev,nofail,x-systemd.automount,noatime"
    with mounted(archive, at=point, transport=transport, options=options):
        assert {"ro", "nosuid", "nodev"} <= mount_line(point)[2]


def test_an_unknown_option_names_the_nearest(archive: Path, point: Path) -> None:
    done = run_archivefs("mount", "-o", "alow_other", archive, point)
    assert done.returncode == 2
    message = one_line(done.stderr)
    assert "alow_other" in message
    assert "allow_other" in message
    assert not point.exists()


def test_a_format_that_cannot_be_written_refuses_rw(archive: Path, point: Path) -> None:
    done = run_archivefs("mount", "-o", "rw", archive, point)
    assert done.returncode in (1, 2)
    assert "archive.zip" in one_line(done.stderr)
    assert not point.exists()


def test_a_part_of_it_can_be_mounted(archive: Path, point: Path, transport: str) -> None:
    with mounted(archive, at=point, transport=transport, arguments=["--subdir", "folder"]):
        assert "deep.txt" in os.listdir(point)
        assert (point / "deep.txt").read_bytes() == b"deep"
        # hello.txt lies above what is shown, so the link that leads there must not lead out of the mount
        if (point / "up").is_symlink():
            assert not os.readlink(point / "up").startswith("..")
        assert (point / ".archivefs" / "status.json").exists()


# -- several archives --


def test_several_archives_are_folders_named_after_them(tmp_path: Path, point: Path, transport: str) -> None:
    (tmp_path / "other").mkdir()
    one = write_tree(tmp_path / "one.zip", {"a": b"1"})
    two = write_tree(tmp_path / "two.zip", {"a": b"2"})
    again = write_tree(tmp_path / "other" / "one.zip", {"a": b"3"})
    with mounted(one, two, again, at=point, transport=transport):
        names = sorted(os.listdir(point))
        assert len(names) == 3
        assert sorted((point / name / "a").read_bytes() for name in names) == [b"1", b"2", b"3"]
        assert [name for name in names if name.endswith("~2")] != []
        inodes = {os.stat(point / name / "a").st_ino for name in names}
        assert len(inodes) == 3, "two archives share an inode number"


def test_a_folder_of_archives_notices_new_ones(tmp_path: Path, point: Path, transport: str) -> None:
    folder = tmp_path / "archives"
    folder.mkdir()
    write_tree(folder / "one.zip", {"a": b"1"})
    (folder / "readme.txt").write_text("no archive")
    with mounted(folder, at=point, transport=transport):
        assert len(os.listdir(point)) == 1
        write_tree(folder / "two.zip", {"a": b"2"})
        assert wait_until(lambda: len(os.listdir(point)) == 2), "a new archive was not noticed"
        assert sorted((point / name / "a").read_bytes() for name in os.listdir(point)) == [b"1", b"2"]


# -- the end --


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_unmounts(archive: Path, point: Path, transport: str, number: signal.Signals) -> None:
    mount = Mount(archive, at=point, transport=transport).wait_ready()
    try:
        assert (point / "hello.txt").read_bytes() == b"hello"
        mount.process.send_signal(number)
        assert mount.wait_gone() == 0
        assert not mount.is_mounted()
        assert not point.exists()
        assert mount.said() == ""
    finally:
        mount.end()


def test_a_signal_unmounts_also_while_it_is_in_use(archive: Path, point: Path, transport: str) -> None:
    mount = Mount(archive, at=point, transport=transport).wait_ready()
    try:
        fd = os.open(point / "hello.txt", os.O_RDONLY)
        assert os.read(fd, 1) == b"h"
        start = time.monotonic()
        mount.process.send_signal(signal.SIGTERM)
        assert mount.wait_gone() == 0
        assert time.monotonic() - start < 8
        assert not mount.is_mounted()
        with contextlib.suppress(OSError):  # closing is an operation too, and nobody is there to answer
            os.close(fd)
    finally:
        mount.end()


def test_umount_of_a_busy_mount_says_so_and_lazy_does_it(archive: Path, point: Path, transport: str) -> None:
    mount = Mount(archive, at=point, transport=transport).wait_ready()
    try:
        with open(point / "hello.txt", "rb"):
            done = run_archivefs("umount", point)
            assert done.returncode == 1
            assert "busy; close what uses it" in one_line(done.stderr)
            assert mount.is_mounted()
            assert run_archivefs("umount", "--lazy", point).returncode == 0
            assert not mount.is_mounted()
        assert mount.wait_gone() == 0
    finally:
        mount.end()


def test_umount_of_what_is_not_mounted_says_so(tmp_path: Path) -> None:
    done = run_archivefs("umount", tmp_path)
    assert done.returncode == 1
    assert str(tmp_path) in one_line(done.stderr)


def test_a_killed_driver_leaves_nothing_that_hangs(archive: Path, point: Path, transport: str) -> None:
    mount = Mount(archive, at=point, transport=transport).wait_ready()
    try:
        mount.process.kill()
        mount.process.wait(10)
        with pytest.raises(OSError) as caught:
            os.listdir(point)
        assert caught.value.errno in (errno.ENOTCONN, errno.ECONNABORTED)
        refused = run_archivefs("mount", archive, point)
        assert refused.returncode == 1
        assert "archivefs umount" in one_line(refused.stderr)
        assert run_archivefs("umount", point).returncode == 0
        with mounted(archive, at=point, transport=transport):
            assert (point / "hello.txt").read_bytes() == b"hello"
    finally:
        mount.end()


# -- the source --


def test_an_archive_replaced_by_rename_goes_on_as_it_was(archive: Path, point: Path, transport: str) -> None:
    with mounted(archive, at=point, transport=transport):
        write_tree(archive.with_name("new"), {"other": b"other"}).rename(archive)
        assert sorted(os.listdir(point)) == ["folder", "hello.txt"]
        assert (point / "folder" / "deep.txt").read_bytes() == b"deep"


def test_an_archive_cut_short_gives_an_error_and_one_log_line(tmp_path: Path, point: Path, transport: str) -> None:
    content = {f"{number}.bin": bytes([number]) * 300_000 for number in range(5)}
    archive = write_tree(tmp_path / "archive.zip", {f"stored{name}": data for name, data in content.items()})
    mount = Mount(archive, at=point, transport=transport).wait_ready()
    try:
        assert (point / "stored0.bin").read_bytes() == content["0.bin"]
        os.truncate(archive, 400_000)
        for _ in range(2):
            with pytest.raises(OSError) as caught:
                (point / "stored4.bin").read_bytes()
            assert caught.value.errno == errno.EIO
        log = (point / ".archivefs" / "errors.log").read_text()
        assert "archive.zip" in log
        assert mount.unmount() == 0
    finally:
        mount.end()


def test_a_damaged_member_gives_an_error_and_the_others_are_fine(tmp_path: Path, point: Path, transport: str) -> None:
    archive = write_tree(tmp_path / "archive.zip", {"stored.bad": b"x" * 1000, "good": b"good" * 1000})
    data = bytearray(archive.read_bytes())
    data[data.index(b"xxxx") + 500] ^= 1
    archive.write_bytes(data)
    mount = Mount(archive, at=point, transport=transport).wait_ready()
    try:
        with pytest.raises(OSError) as caught:
            (point / "stored.bad").read_bytes()
        assert caught.value.errno == errno.EIO
        assert (point / "good").read_bytes() == b"good" * 1000
        (line,) = (point / ".archivefs" / "errors.log").read_text().splitlines()
        assert "stored.bad" in line
        assert mount.unmount() == 0
    finally:
        mount.end()
