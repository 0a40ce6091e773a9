"""Zips made to do harm, and damaged ones: an error of ours, or exactly what the archive promises."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from archivefs.errors import CorruptArchive, UnreadableArchive
from archivefs.format import Opening, VerifyRequest
from archivefs.formats.zip import FORMAT
from tests.hostile.corpus import CASES, GOOD
from tests.hostile.judge import Verdict, judge
from tests.hostile.mutants import mutants
from tests.shared import SHARED, shared_module
from tests.walking import state_of
from tests.zips.forge import BZIP2, FOLDER, LINK, LZMA, STORED, Forge

MUTANTS = 2000
SECONDS_EACH = 5
HAS_SHARED = (SHARED / "faults" / "badzips.py").exists()


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Oddities are logged, and there are many here."""
    caplog.set_level(logging.CRITICAL)


def seen(path: Path, **bounds: int) -> Verdict | None:
    """What the tree shows; None if the archive is refused, in one line."""
    before = state_of(path.parent)
    try:
        tree = FORMAT.open(str(path), Opening(options={"encoding": "utf-8"}))
    except (UnreadableArchive, CorruptArchive) as error:
        assert str(error).isprintable()
        assert state_of(path.parent) == before
        return None
    try:
        verdict = judge(tree, **bounds)
        tree.facts()
        tree.usage()
    finally:
        tree.close()
    assert state_of(path.parent) == before
    return verdict


def check(verdict: Verdict | None, *, mount: str, good: dict[str, str], bad: Iterable[str]) -> None:
    if verdict is None:
        assert mount in ("refuse", "either")
        return
    assert mount in ("ok", "either")
    assert verdict.faults == []
    for name, digest in good.items():
        assert verdict.digests.get(name) == digest, name
    assert [name for name in bad if name in verdict.digests] == []


@pytest.mark.parametrize("name", sorted(CASES))
def test_our_own(tmp_path: Path, name: str) -> None:
    case = CASES[name]()
    path = tmp_path / "hostile.zip"
    path.write_bytes(case.data)
    start = time.monotonic()
    verdict = seen(path, max_bytes=case.max_bytes)
    texts = {"good.txt": GOOD, "u" * 255: b"just right", "Case": b"Case", "case": b"case"}
    good = {member: hashlib.sha256(texts.get(member, b"x")).hexdigest() for member in case.good}
    check(verdict, mount=case.mount, good=good, bad=case.bad)
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("name", sorted(CASES))
def test_verify_ends_well_on_our_own(tmp_path: Path, name: str) -> None:
    case = CASES[name]()
    path = tmp_path / "hostile.zip"
    path.write_bytes(case.data)
    assert FORMAT.verify is not None
    try:
        findings = list(FORMAT.verify(str(path), Opening(), VerifyRequest()))
    except (UnreadableArchive, CorruptArchive):
        assert case.mount in ("refuse", "either")
        return
    told = {finding.where for finding in findings}
    assert set(case.bad) - {"huge"} <= told  # a link of megabytes is no damage


def _shared_kinds() -> list[str]:
    return sorted(shared_module("faults", "badzips.py").KINDS) if HAS_SHARED else ["none"]


@pytest.mark.skipif(not HAS_SHARED, reason="no corpus lies beside the project")
@pytest.mark.parametrize("kind", _shared_kinds())
def test_a_larger_corpus(tmp_path: Path, kind: str) -> None:
    data, expected = shared_module("faults", "badzips.py").build(kind)
    path = tmp_path / "hostile.zip"
    path.write_bytes(data)
    limits = expected["limits"]
    bounds = {"max_bytes": limits["bytes"]} if "bytes" in limits else {}
    verdict = seen(path, **bounds)
    check(verdict, mount=expected["mount"], good=expected["good"], bad=expected["bad"])


def sample() -> bytes:
    """A small zip with a bit of everything, and what is worth damaging."""
    forge = Forge()
    forge.add("good.txt", GOOD)
    forge.add("stored.bin", bytes(range(256)) * 4, method=STORED)
    forge.add("folder/", b"", method=STORED, mode=FOLDER)
    forge.add("folder/page.html", b"<p>hello</p>\n" * 100)
    forge.add("folder/deep/er/x", b"x" * 3000, method=BZIP2)
    forge.add("folder/lzma", b"lzma " * 500, method=LZMA)
    forge.add("link", b"folder/page.html", method=STORED, mode=LINK)
    forge.add("empty", b"", method=STORED)
    forge.add("žluť", b"utf-8 " * 30)
    forge.add("twin", b"one")
    forge.add("twin", b"two")
    return forge.end(comment=b"a comment")


def test_the_sample_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "sample.zip"
    path.write_bytes(sample())
    verdict = seen(path)
    assert verdict is not None
    assert verdict.faults == []
    assert verdict.refused == {}
    assert len(verdict.digests) == 9


def _all_mutants() -> Iterator[tuple[str, bytes]]:
    yield from mutants(sample(), seed=20, count=MUTANTS)


def _shared_mutants() -> Iterator[tuple[str, bytes]]:
    for label, detail, data in shared_module("faults", "mutate.py").mutations(sample(), seed=1, count=MUTANTS):
        yield f"{label} {detail}", data


@pytest.mark.parametrize("damaged", [_all_mutants, _shared_mutants], ids=["ours", "others"])
def test_two_thousand_damaged_zips(tmp_path: Path, damaged) -> None:
    path = tmp_path / "mutant.zip"
    opened = refused = 0
    for label, data in damaged():
        path.write_bytes(data)
        start = time.monotonic()
        verdict = seen(path, max_bytes=32 << 20)
        assert time.monotonic() - start < SECONDS_EACH, label
        if verdict is not None:
            assert verdict.faults == [], label
        opened += verdict is not None
        refused += verdict is None
    assert opened + refused == MUTANTS
    assert opened > MUTANTS // 3  # most damage hits one member, not the archive
