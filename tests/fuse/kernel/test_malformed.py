"""Requests no kernel would send: short, long, random.  The driver refuses them and goes on."""

from __future__ import annotations

import errno
import random

import pytest

from archivefs.fuse.kernel import protocol
from archivefs.fuse.kernel.protocol import UNANSWERED, Opcode
from archivefs.memory import MemoryTree
from archivefs.tree import Tree
from tests.fuse.kernel.fake import WITHOUT_NO_OPEN, FakeKernel, read_body, release_body, request
from tests.fuse.kernel.trees import CONTENT, Forgetful

WELL_FORMED = {
    Opcode.LOOKUP: b"hello.txt\0",
    Opcode.FORGET: protocol.FORGET_IN.pack(1),
    Opcode.BATCH_FORGET: protocol.BATCH_FORGET_IN.pack(1, 0) + protocol.FORGET_ONE.pack(7, 1),
    Opcode.GETATTR: protocol.GETATTR_IN.pack(0, 0, 0),
    Opcode.OPEN: protocol.OPEN_IN.pack(0, 0),
    Opcode.READ: read_body(0, 0, 4096),
    Opcode.RELEASE: release_body(1),
    Opcode.GETXATTR: protocol.GETXATTR_IN.pack(0, 0) + b"user.a\0",
    Opcode.LISTXATTR: protocol.GETXATTR_IN.pack(0, 0),
    Opcode.OPENDIR: protocol.OPEN_IN.pack(0, 0),
    Opcode.READDIR: read_body(0, 0, 4096),
    Opcode.READDIRPLUS: read_body(0, 0, 4096),
    Opcode.RELEASEDIR: release_body(1),
    Opcode.INTERRUPT: protocol.INTERRUPT_IN.pack(99),
}


@pytest.fixture(params=[MemoryTree, Forgetful], ids=["leads-back", "by-name"])
def tree(request: pytest.FixtureRequest) -> Tree:
    return request.param(CONTENT)


@pytest.mark.parametrize("opcode", WELL_FORMED)
def test_every_request_cut_at_every_byte(tree: Tree, opcode: Opcode, caplog: pytest.LogCaptureFixture) -> None:
    body = WELL_FORMED[opcode]
    with FakeKernel(tree, flags=WITHOUT_NO_OPEN) as kernel:
        for size in range(len(body)):
            if opcode in UNANSWERED:
                kernel.send(opcode, 1, body[:size])
                kernel.settle()
            else:
                assert kernel.ask(opcode, 1, body[:size]).error == errno.EINVAL, size
        kernel.settle()
    assert caplog.text.count("malformed") == len(body)


@pytest.mark.parametrize("size", range(protocol.IN_SIZE))
def test_without_a_header_there_is_no_answer(tree: Tree, size: int, caplog: pytest.LogCaptureFixture) -> None:
    with FakeKernel(tree) as kernel:
        if size:  # nothing at all is the end of the connection
            kernel.send_raw(request(Opcode.GETATTR, 1000, 1, b"")[:size])
            kernel.settle()
            assert "has no header" in caplog.text


@pytest.mark.parametrize("difference", [-40, -1, 1, 8, 2**31])
def test_a_wrong_length_is_refused(tree: Tree, difference: int, caplog: pytest.LogCaptureFixture) -> None:
    good = request(Opcode.GETATTR, 1000, 1, protocol.GETATTR_IN.pack(0, 0, 0))
    with FakeKernel(tree) as kernel:
        kernel.expect(1000)
        kernel.send_raw((len(good) + difference).to_bytes(4, "little") + good[4:])
        answer = kernel.receive()
        assert answer is not None
        assert (answer.unique, answer.error) == (1000, errno.EINVAL)
    assert "malformed" in caplog.text


def test_what_an_earlier_request_left_in_the_buffer_is_not_read(tree: Tree, caplog: pytest.LogCaptureFixture) -> None:
    """The buffer is used again, so the bytes after a short request are those of the one before."""
    with FakeKernel(tree, workers=1) as kernel:
        for _ in range(4):
            kernel.look_up(1, "hello.txt")
            assert kernel.ask(Opcode.LOOKUP, 1, b"he").error == errno.EINVAL
    assert "a name without an end" in caplog.text


@pytest.mark.parametrize("seed", range(4))
def test_random_bytes_do_no_harm(tree: Tree, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """Well-formed headers, anything behind them: always an answer, never a bug."""
    chance = random.Random(seed)
    with FakeKernel(tree, flags=chance.choice([WITHOUT_NO_OPEN, (1 << 43) - 1])) as kernel:
        for _ in range(500):
            opcode = chance.choice([*Opcode, chance.randrange(70)])
            body = chance.randbytes(chance.choice([0, 1, 8, 16, 24, 40, 64, 500]))
            if opcode in (Opcode.READDIR, Opcode.READDIRPLUS, Opcode.READ):
                body = read_body(chance.randrange(3), chance.choice([0, 1, 5, 2**62]), chance.choice([0, 1, 4096]))
            nodeid = chance.choice([1, 2, 3, 4, 5, 10**6, chance.randrange(2**64)])
            if opcode in UNANSWERED:
                kernel.send(opcode, nodeid, body)
            else:
                answer = kernel.ask(opcode, nodeid, body)
                assert 0 <= answer.error < 134
        kernel.settle()
    assert "a bug in archivefs" not in caplog.text
