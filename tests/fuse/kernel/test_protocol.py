"""The numbers of the protocol, against the header of the system where there is one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from archivefs.fuse.kernel import protocol
from archivefs.fuse.kernel.protocol import Flag, Opcode

HEADER = Path("/usr/include/linux/fuse.h")

SIZES = {
    "fuse_in_header": protocol.IN_SIZE,
    "fuse_out_header": protocol.OUT_SIZE,
    "fuse_init_out": protocol.INIT_OUT.size,
    "fuse_entry_out": protocol.ENTRY.size,
    "fuse_attr": protocol.ENTRY.size - 40,
    "fuse_attr_out": protocol.ATTR_REPLY.size - protocol.OUT_SIZE,
    "fuse_open_out": protocol.OPEN_REPLY.size - protocol.OUT_SIZE,
    "fuse_kstatfs": protocol.STATFS_REPLY.size - protocol.OUT_SIZE,
    "fuse_getxattr_out": protocol.GETXATTR_REPLY.size - protocol.OUT_SIZE,
    "fuse_notify_inval_inode_out": protocol.INVAL_INODE.size - protocol.OUT_SIZE,
    "fuse_notify_inval_entry_out": protocol.INVAL_ENTRY.size - protocol.OUT_SIZE,
    "fuse_forget_in": protocol.FORGET_IN.size,
    "fuse_forget_one": protocol.FORGET_ONE.size,
    "fuse_batch_forget_in": protocol.BATCH_FORGET_IN.size,
    "fuse_getattr_in": protocol.GETATTR_IN.size,
    "fuse_open_in": protocol.OPEN_IN.size,
    "fuse_read_in": protocol.READ_IN_SIZE,
    "fuse_release_in": protocol.RELEASE_IN_SIZE,
    "fuse_getxattr_in": protocol.GETXATTR_IN.size,
    "fuse_interrupt_in": protocol.INTERRUPT_IN.size,
}
BYTES = {"uint64_t": 8, "int64_t": 8, "uint32_t": 4, "int32_t": 4, "uint16_t": 2}


@pytest.fixture(scope="module")
def header() -> str:
    if not HEADER.exists():
        pytest.skip("linux/fuse.h is not installed")
    return re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("name", SIZES)
def test_structures_have_the_size_of_the_systems_own(header: str, name: str) -> None:
    assert size_of(header, name) == SIZES[name]


def size_of(header: str, name: str) -> int:
    match = re.search(rf"struct {name} {{(.*?)\n}};", header, flags=re.DOTALL)
    assert match is not None
    total = 0
    for kind, field in re.findall(r"(?:struct )?(\w+)\s+(\w+(?:\[\d+\])?);", match[1]):
        count = re.search(r"\[(\d+)\]", field)
        total += (BYTES[kind] if kind in BYTES else size_of(header, kind)) * (int(count[1]) if count else 1)
    return total


def test_opcodes_are_the_systems_own(header: str) -> None:
    theirs = {name: int(number) for name, number in re.findall(r"FUSE_(\w+)\s*=\s*(\d+),", header)}
    shared = [opcode for opcode in Opcode if opcode.name in theirs]
    assert len(shared) > 45
    assert all(theirs[opcode.name] == opcode for opcode in shared)


def test_flags_are_the_systems_own(header: str) -> None:
    theirs = {name: int(bit) for name, bit in re.findall(r"#define FUSE_(\w+)\s+\(1U?L*\s*<<\s*(\d+)\)", header)}
    shared = [flag for flag in Flag if flag.name in theirs]
    assert len(shared) > 10
    assert all(1 << theirs[str(flag.name)] == flag for flag in shared)


def test_every_opcode_is_a_read_a_change_or_unknown() -> None:
    assert not protocol.CHANGING & protocol.UNANSWERED
    assert {*protocol.CHANGING, *protocol.UNANSWERED} <= set(Opcode)
