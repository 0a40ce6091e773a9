"""When a mount is taken for unused.  No mount, and no waiting: time and the mount table are the test's own."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from archivefs import options
from archivefs.caches import ByteCache
from archivefs.errors import BadOption, MountRefused
from archivefs.fuse import idle
from archivefs.fuse.driver import IMMUTABLE_LIFETIME_S, LIVING_LIFETIME_S, Driver
from archivefs.fuse.fusepy import FusepyTransport
from archivefs.fuse.idle import IdleWatch
from archivefs.fuse.kernel.negotiation import Session
from archivefs.fuse.kernel.passthrough import Passthrough
from archivefs.fuse.kernel.protocol import NEWEST_MINOR
from archivefs.fuse.kernel.requests import Requests
from archivefs.fuse.options import MOUNT_OPTIONS, MountOptions
from archivefs.fuse.unmount import Mount
from archivefs.memory import MemoryTree

OURS = Mount("/mnt", "fuse.archivefs", "a.zip", "0:57")


def watch(counts: Counter[str], limit_s: float = 60.0) -> IdleWatch:
    return IdleWatch(counts, "/mnt", limit_s)


def test_any_request_is_a_use() -> None:
    counts = Counter(lookup=3)
    watched = watch(counts)
    assert [watched.is_due(now) for now in (100.0, 159.9, 160.0)] == [False, False, True]
    counts["read"] += 1
    assert [watched.is_due(now) for now in (161.0, 220.9, 221.0)] == [False, False, True]


@pytest.mark.parametrize("name", sorted(idle.NO_USE))
def test_what_the_kernel_does_by_itself_is_none(name: str) -> None:
    counts: Counter[str] = Counter()
    watched = watch(counts)
    assert not watched.is_due(100.0)
    counts[name] += 5
    assert watched.is_due(160.0)


class Machine:
    """A mount table, and what comes of unmounting."""

    def __init__(self, *outcomes: bool | MountRefused) -> None:
        self.mounted: Mount | None = OURS
        self.outcomes = list(outcomes)
        self.unmounted: list[str] = []

    def unmount_unused(self, mountpoint: str) -> bool:
        self.unmounted.append(mountpoint)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, MountRefused):
            raise outcome
        return outcome


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(idle, "mounted_at", lambda _at: machine.mounted)
    monkeypatch.setattr(idle, "unmount_unused", machine.unmount_unused)
    return machine


def run(watched: IdleWatch) -> None:
    watched.start()
    watched.join(10)
    assert not watched.is_alive()


def test_it_is_tried_until_nobody_uses_it(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    machine.outcomes = [False, MountRefused("not permitted"), True]
    watched = watch(Counter(), 0.02)
    run(watched)
    assert machine.unmounted == ["/mnt"] * 3
    assert watched.unmounting
    assert [record.getMessage() for record in caplog.records] == ["not permitted"]


def test_what_was_mounted_above_it_is_left_alone(machine: Machine) -> None:
    seen = iter([OURS, OURS._replace(number="0:58")])
    watched = watch(Counter(), 0.02)
    machine.outcomes = [True]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(idle, "mounted_at", lambda _at: next(seen))
        run(watched)
    assert machine.unmounted == []
    assert not watched.unmounting


# -- what the kernel may keep --


class LivingTree(MemoryTree):
    immutable = False


@pytest.mark.parametrize(
    ("tree", "idle_s", "kept_s"),
    [
        (MemoryTree({}), 0.0, IMMUTABLE_LIFETIME_S),
        (MemoryTree({}), 60.0, 30.0),
        (MemoryTree({}), 1e9, IMMUTABLE_LIFETIME_S),
        (LivingTree({}), 0.0, LIVING_LIFETIME_S),
        (LivingTree({}), 60.0, LIVING_LIFETIME_S),
        (LivingTree({}), 1.0, 0.5),
    ],
)
def test_the_kernel_has_to_ask_within_half_of_the_time(tree: MemoryTree, idle_s: float, kept_s: float) -> None:
    driver = Driver(tree, MountOptions(idle_s=idle_s), ByteCache(1 << 20))
    assert driver.lifetime_s(driver.root) == kept_s
    arguments = FusepyTransport(driver, "/mnt")._arguments()
    assert (arguments["entry_timeout"], arguments["attr_timeout"]) == (kept_s, kept_s)
    session = Session(minor=NEWEST_MINOR, flags=0)
    replies = Requests(driver, session, Passthrough(-1, enabled=False)).replies
    assert replies.lifetime_s(driver.root) == int(kept_s)
    watched = replace(session, epochs=True)  # then it may keep those of a living tree for longer
    replies = Requests(driver, watched, Passthrough(-1, enabled=False)).replies
    assert replies.lifetime_s(driver.root) <= max(1.0, idle_s / 2) or not idle_s


# -- the option --


@pytest.mark.parametrize("text", ["idle=-1", "idle=soon", "idle=1.5", "idle=", "idle", "idle=9999999999999"])
def test_what_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(BadOption, match="idle"):
        options.parse([text], MOUNT_OPTIONS)


@pytest.mark.parametrize(("text", "idle_s"), [("", 0.0), ("idle=0", 0.0), ("idle=90", 90.0)])
def test_zero_is_never(text: str, idle_s: float) -> None:
    assert MountOptions.from_values(options.parse([text], MOUNT_OPTIONS)).idle_s == idle_s
