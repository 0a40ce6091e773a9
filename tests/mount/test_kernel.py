"""What the kernel's own protocol brings: passthrough, signals, memory; and many clients of a tree that changes."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from tests.mount.clients import RandomClient
from tests.mount.harness import Mount, mounted, tool, wait_until
from tests.mount.test_odd import ENV, odd_archive, resident
from tests.samples.zips import write_tree

NOBODY = 65534
ROOT = os.getuid() == 0


def status(mount: Mount) -> dict:
    return json.loads((mount.path / ".archivefs" / "status.json").read_text())


def operations(mount: Mount) -> dict[str, int]:
    return status(mount)["operations"]


def test_it_is_what_one_gets_without_asking(tmp_path: Path) -> None:
    with mounted(odd_archive(tmp_path, "bugs"), at=tmp_path / "m", env=ENV) as mount:
        assert status(mount)["transport"] == "kernel"


# -- against a plain folder --


def test_random_operations_give_what_a_plain_folder_gives(tmp_path: Path) -> None:
    """100,000 of them, on a mount that is fresh every 12,500, so that the kernel has to ask."""
    archive = write_tree(tmp_path / "archive.zip")
    unzip = [tool("unzip"), "-q", str(archive), "-d", str(tmp_path / "plain")]
    subprocess.run(unzip, env={**os.environ, "LC_ALL": "C.UTF-8", "TZ": "UTC"}, check=True)
    for number in range(8):
        with mounted(archive, at=tmp_path / "m", transport="kernel", env={"TZ": "UTC"}) as mount:
            assert RandomClient(mount.path, tmp_path / "plain", seed=100 + number).run(12_500) == []


# -- many clients of a living tree --


def test_eight_clients_while_generations_change(tmp_path: Path, transport: str) -> None:
    source = odd_archive(tmp_path, "living", "a 0", "b 0")
    stop = threading.Event()
    problems: list[str] = []
    looks = [0] * 8
    last = 0

    def client(number: int, folder: Path) -> None:
        seen = -1
        while not stop.is_set():
            try:
                names = set(os.listdir(folder))
                if not {"a", "b"} <= names or not names <= {"a", "b", "odd"}:
                    problems.append(f"listed {names}")
                words = (folder / "a").read_bytes().split()
                if len(set(words)) != 1:
                    problems.append(f"a mixture: {words[:3]}")
                if int(words[0]) < seen:
                    problems.append(f"went back from {seen} to {words[0]!r}")
                seen = int(words[0])
                (folder / "odd").exists()
            except FileNotFoundError:
                problems.append("a file was gone that never is")
            except OSError as error:
                # The archive is rewritten by rename; a number handed out before may be stale for a moment.
                if error.errno != errno.ESTALE:
                    problems.append(str(error))
            looks[number] += 1

    with mounted(source, at=tmp_path / "m", transport=transport, env=ENV) as mount:
        threads = [threading.Thread(target=client, args=(number, mount.path)) for number in range(8)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 5
        while time.monotonic() < end:
            last += 1
            lines = ["archivefs-odd living", "a " + f"{last} " * (last % 50 + 1), f"b {last}"]
            new = tmp_path / "new"
            new.write_text("\n".join(lines + ["odd 1"] * (last % 2)) + "\n")
            os.replace(new, source)
            time.sleep(0.05)
        assert wait_until(lambda: (mount.path / "b").read_bytes() == b"%d" % last, 5)
        assert wait_until(lambda: ("odd" in os.listdir(mount.path)) == bool(last % 2), 5)
        stop.set()
        for thread in threads:
            thread.join(10)
        assert problems[:3] == []
        assert min(looks) > 20


def test_what_was_not_there_is_seen_when_it_comes(tmp_path: Path, transport: str) -> None:
    source = odd_archive(tmp_path, "living", "a 1")
    with mounted(source, at=tmp_path / "m", transport=transport, env=ENV) as mount:
        assert not (mount.path / "b").exists()
        source.write_text("archivefs-odd living\na 1\nb 2\n")
        assert wait_until(lambda: (mount.path / "b").exists(), 5)


# -- time limits and signals --


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("command", [("cat", "hang1"), ("ls", "never")], ids=["read", "listing"])
def test_a_signal_ends_a_client_that_hangs(tmp_path: Path, command: tuple[str, str], number: signal.Signals) -> None:
    """Where the driver does not answer, not even SIGKILL does."""
    source = odd_archive(tmp_path, "hang")
    with mounted(source, at=tmp_path / "m", transport="kernel", options="timeout=60", env=ENV) as mount:
        child = subprocess.Popen([command[0], str(mount.path / command[1])], stderr=subprocess.DEVNULL)
        time.sleep(0.5)
        assert child.poll() is None
        child.send_signal(number)
        assert child.wait(10) != 0
        assert (mount.path / "ok.txt").read_bytes() == b"still here\n"


def test_an_empty_file_that_cannot_be_opened_is_not_read_as_empty(tmp_path: Path) -> None:
    """Although the kernel opens files of this mount without asking."""
    source = odd_archive(tmp_path, "empties")
    with mounted(source, at=tmp_path / "m", transport="kernel", env=ENV) as mount:
        for _ in range(2):
            assert (mount.path / "fine").read_bytes() == b""
            assert (mount.path / "broken").stat().st_size == 0
            with pytest.raises(OSError) as caught:
                (mount.path / "broken").read_bytes()
            assert caught.value.errno == errno.EIO
        assert subprocess.run(["cat", mount.path / "broken"], capture_output=True).returncode == 1
        assert subprocess.run(["cp", mount.path / "broken", tmp_path / "copy"], capture_output=True).returncode == 1
        assert operations(mount).get("open", 0) <= 1


def test_files_of_the_driver_are_new_at_each_open(tmp_path: Path) -> None:
    with mounted(odd_archive(tmp_path, "bugs"), at=tmp_path / "m", transport="kernel", env=ENV) as mount:
        path = mount.path / ".archivefs" / "status.json"
        counts = [json.loads(path.read_text())["operations"]["lookup"] for _ in range(50)]
        assert counts == sorted(set(counts)), "each one looked the file up again"
        inodes = {path.stat().st_ino for _ in range(3)}
        assert len(inodes) == 1
        copy = subprocess.run(["cp", path, tmp_path / "copy"], capture_output=True, text=True)
        assert (copy.returncode, copy.stderr) == (0, "")
        json.loads((tmp_path / "copy").read_text())


# -- plain content --


@pytest.mark.skipif(not ROOT, reason="only root may hand files over to the kernel")
def test_a_whole_file_is_read_by_the_kernel_alone(tmp_path: Path) -> None:
    source = odd_archive(tmp_path, "whole", *(f"line {number}" for number in range(100_000)))
    data = source.read_bytes()
    with mounted(source, at=tmp_path / "m", transport="kernel", env=ENV) as mount:
        path = mount.path / "self"
        with open(path, "rb") as one, open(path, "rb") as two:
            assert one.read() == data
            two.seek(500_000)
            assert two.read() == data[500_000:]
        assert path.read_bytes() == data
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            assert file.tell() == len(data)
        done = operations(mount)
        if kernel_version() >= (6, 9):
            assert "read" not in done or done["read"] <= 1  # status.json itself
        assert wait_until(lambda: status(mount)["open_files"] <= 1)
        for _ in range(200):
            assert path.read_bytes()[:10] == data[:10]


def kernel_version() -> tuple[int, ...]:
    return tuple(map(int, os.uname().release.split("-")[0].split(".")[:2]))


# -- permissions --


@pytest.mark.skipif(not ROOT, reason="needs a second user")
@pytest.mark.parametrize(("options", "allowed"), [("", False), ("allow_root", False), ("allow_other", True)])
def test_who_may_look(options: str, allowed: bool) -> None:
    folder = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    folder.chmod(0o755)
    try:
        with mounted(
            odd_archive(folder, "bugs"), at=folder / "m", transport="kernel", options=options, env=ENV
        ) as mount:
            assert (mount.path / "ok.txt").read_bytes() == b"still here\n"
            words = "import os,sys; sys.stdout.write(open(sys.argv[1]).read())"
            done = subprocess.run(
                [os.path.realpath("/usr/bin/python3"), "-c", words, str(mount.path / "ok.txt")],
                user=NOBODY,
                group=NOBODY,
                extra_groups=[],
                capture_output=True,
                text=True,
            )
            assert (done.stdout == "still here\n") is allowed, done.stderr
            line = next(line for line in Path("/proc/mounts").read_text().splitlines() if str(mount.path) in line)
            assert "nosuid,nodev" in line
            assert ("default_permissions" in line) is bool(options)
    finally:
        subprocess.run(["rm", "-r", str(folder)], check=True)


# -- memory --


def test_a_walk_of_a_million_files_leaves_no_trace(tmp_path: Path) -> None:
    with mounted(odd_archive(tmp_path, "million"), at=tmp_path / "m", transport="kernel", env=ENV) as mount:
        os.listdir(mount.path / "..")
        before = resident(mount.process.pid)
        with subprocess.Popen(["find", str(mount.path), "-ls"], stdout=subprocess.PIPE) as walk:
            assert walk.stdout is not None
            lines = sum(chunk.count(b"\n") for chunk in iter(partial(walk.stdout.read, 1 << 20), b""))
        assert walk.returncode == 0
        assert lines == 1_000_001
        assert resident(mount.process.pid) - before < 16 << 20


# -- the end --


def test_leaving_a_busy_mount_frees_its_clients(tmp_path: Path) -> None:
    """A client with its working directory and an open file inside; SIGTERM; nobody hangs, nothing stays."""
    source = odd_archive(tmp_path, "bugs")
    mount = Mount(source, at=tmp_path / "m", transport="kernel", env=ENV).wait_ready()
    try:
        code = (
            "import os,sys,time\nos.chdir(sys.argv[1])\nf=os.open('ok.txt',0)\nprint('in',flush=True)\n"
            "sys.stdin.readline()\n"
            "try: os.stat('other')\nexcept OSError as e: print(e.errno,flush=True)\n"
        )
        child = subprocess.Popen(
            [sys.executable, "-c", code, str(mount.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None and child.stdout.readline() == "in\n"
        mount.process.terminate()
        assert mount.wait_gone() == 0
        assert not mount.is_mounted()
        said, _ = child.communicate("go\n", timeout=10)
        assert int(said) in (errno.ENOTCONN, errno.ECONNABORTED, errno.ENOENT, errno.EIO)
    finally:
        mount.end()
