"""What a user does with a mounted archive; a program of its own, so that it can be stopped when it takes too long.

    client.py OPERATION ARGUMENT...

It times itself, so that its own start does not count, and prints ``{"seconds": …, "check": …}``.  *check* is the same
on every tool that shows the files as they are; the benchmark compares it with that of the unpacked files.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import zlib
from time import perf_counter

BLOCK = 1 << 20
RANDOM_READS, RANDOM_SIZE = 200, 1 << 16


def lines(program: str, *arguments: str) -> tuple[float, object]:
    """Run a program and count its lines: grep stops at the first match when nobody reads what it prints."""
    _load(program)
    start = perf_counter()
    with subprocess.Popen([program, *arguments], stdout=subprocess.PIPE, env={**os.environ, "LC_ALL": "C"}) as running:
        assert running.stdout is not None
        descriptor, count = running.stdout.fileno(), 0
        while block := os.read(descriptor, BLOCK):
            count += block.count(b"\n")
    seconds = perf_counter() - start
    if running.returncode:
        raise OSError(f"{program} ended with exit code {running.returncode}")
    return seconds, count


def copy(root: str, target: str) -> tuple[float, object]:
    """Copy everything with rsync; the check is the number of files and bytes that arrived."""
    _load("rsync")
    shutil.rmtree(target, ignore_errors=True)  # of a run that was ended, with half of the files
    try:
        start = perf_counter()
        subprocess.run(["rsync", "-a", "--whole-file", root + "/", target + "/"], check=True)
        seconds = perf_counter() - start
        sizes = [os.stat(f"{at}/{name}").st_size for at, _, names in os.walk(target) for name in names]
        return seconds, [len(sizes), sum(sizes)]
    finally:
        shutil.rmtree(target, ignore_errors=True)


def _load(program: str) -> None:
    """Have the program itself in memory: where caches were dropped, it would be read from disk as part of the time."""
    subprocess.run([program, "--version"], stdout=subprocess.DEVNULL, check=True)


def first_name(folder: str) -> tuple[float, object]:
    """List a folder as far as its first name."""
    start = perf_counter()
    with os.scandir(folder) as entries:
        next(entries)
    return perf_counter() - start, None


def sequential(path: str) -> tuple[float, object]:
    """Read a file from beginning to end; the start of one block in sixteen is kept, and checked afterwards."""
    buffer, kept, size = memoryview(bytearray(BLOCK)), [], 0
    start = perf_counter()
    descriptor = os.open(path, os.O_RDONLY)
    while count := _fill(descriptor, buffer):
        if size // BLOCK % 16 == 0:
            kept.append(bytes(buffer[: min(count, 512)]))
        size += count
    os.close(descriptor)
    return perf_counter() - start, [size, zlib.crc32(b"".join(kept))]


def _fill(descriptor: int, buffer: memoryview) -> int:
    """A whole block unless the file ends: how much one read brings differs between tools."""
    count = 0
    while more := os.readv(descriptor, [buffer[count:]]):
        count += more
        if count == len(buffer):
            break
    return count


def scattered(path: str) -> tuple[float, object]:
    """Read 64 KiB at two hundred places of a file, all over it."""
    last = os.stat(path).st_size - RANDOM_SIZE
    places = [random.Random(number).randrange(last + 1) for number in range(RANDOM_READS)]
    start = perf_counter()
    descriptor = os.open(path, os.O_RDONLY)
    blocks = [os.pread(descriptor, RANDOM_SIZE, place) for place in places]
    os.close(descriptor)
    return perf_counter() - start, zlib.crc32(b"".join(blocks))


def look_up(root: str, names: str) -> tuple[float, object]:
    """Ask for the attributes of the files that the file *names* lists."""
    paths = _paths(root, names)
    start = perf_counter()
    sizes = [os.stat(path).st_size for path in paths]
    return perf_counter() - start, sizes_check(sizes)


def read_all(root: str, names: str) -> tuple[float, object]:
    """Read the files that the file *names* lists."""
    paths = _paths(root, names)
    start = perf_counter()
    contents = []
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        contents.append(os.read(descriptor, BLOCK))
        os.close(descriptor)
    return perf_counter() - start, zlib.crc32(b"".join(contents))


def _paths(root: str, names: str) -> list[str]:
    with open(names, encoding="utf-8") as file:
        return [f"{root}/{line}" for line in file.read().splitlines()]


def sizes_check(sizes: list[int]) -> object:
    """Something short that differs when one of *sizes* does."""
    return zlib.crc32(repr(sizes).encode())


OPERATIONS = {
    operation.__name__: operation for operation in (lines, copy, first_name, sequential, scattered, look_up, read_all)
}


def main(name: str, *arguments: str) -> None:
    """Do one operation and print its time."""
    try:
        seconds, check = OPERATIONS[name](*arguments)
    except (OSError, subprocess.CalledProcessError, StopIteration) as error:
        sys.exit(f"{name}: {error or 'nothing is listed'}")
    print(json.dumps({"seconds": seconds, "check": check}))


if __name__ == "__main__":
    main(*sys.argv[1:])
