"""The given samples of Crystal projects, good and bad: everything that is expected of each."""

from __future__ import annotations

import hashlib
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from archivefs.errors import ArchiveError, UnreadableArchive
from archivefs.formats.crystal.tree import CrystalTree
from archivefs.tree import File, Symlink
from tests.formats.crystal.projects import fingerprint, opened, shape
from tests.shared import SHARED
from tests.walking import content_of, walk

MAKER = SHARED / "samples" / "make_crystal.py"
WIDE = 22_573  # too many to look at each of them


def _names() -> list[str]:
    if not MAKER.exists():
        return []
    listed = subprocess.run([sys.executable, MAKER, "x", "--list"], capture_output=True, text=True, check=True)
    return [line.split()[0] for line in listed.stdout.splitlines()]


pytestmark = pytest.mark.skipif(not MAKER.exists(), reason="the samples are not beside the project")


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    subprocess.run([sys.executable, MAKER, folder], check=True, capture_output=True)
    return folder


@pytest.fixture
def case(samples: Path, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[dict[str, Any]]:
    caplog.set_level(logging.ERROR)
    expected = json.loads((samples / f"{request.param}.expected.json").read_text())
    expected["path"] = samples / expected["project"]
    before = fingerprint(expected["path"])
    yield expected
    assert fingerprint(expected["path"]) == before


@pytest.mark.parametrize("case", _names(), indirect=True)
def test_a_sample_is_as_expected(case: dict[str, Any]) -> None:
    if case["open"] == "refuse":
        with pytest.raises(UnreadableArchive), opened(case["path"]):
            pass
        return
    with opened(case["path"]) as tree:
        pages = _pages(tree, limit=len(case["resources"]) < WIDE)
        for url, resource in case["resources"].items():
            raw = url.encode("utf-8")
            if resource["shown"] is None:
                assert raw not in pages, url
            elif raw in pages or len(case["resources"]) < WIDE:
                _check(tree, url, resource, pages.pop(raw))
        assert [url for url in pages if url != b"https://x.example/\xff"] == []


def _pages(tree: CrystalTree, *, limit: bool) -> dict[bytes, tuple[tuple[str, ...], File]]:
    found = {}
    for parts, _, node, _ in walk(tree):
        if parts[0] != "web" or (not limit and len(found) > 1500):
            break
        if isinstance(node, File):
            url = node.xattrs()["user.xdg.origin.url"]
            assert url not in found, "listed twice"
            found[url] = (parts, node)
    return found


def _check(tree: CrystalTree, url: str, resource: dict[str, Any], page: tuple[tuple[str, ...], File]) -> None:
    parts, node = page
    shown, xattrs = resource["shown"], node.xattrs()
    assert ("web", *tree.sight.listed_path(url.encode("utf-8"))) == parts
    assert tree.lookup(parts).ident == tree.node(node.ident).ident == node.ident
    assert int(xattrs["user.archivefs.revision"]) == shown["revision"]
    status = xattrs.get("user.archivefs.status")
    assert (status and int(status)) == shown["status"], url
    try:
        data = content_of(node)
        assert isinstance(data, bytes)
        assert len(data) == node.attributes().size
        digest = hashlib.sha256(data).hexdigest()
    except ArchiveError:
        digest = None
        assert xattrs["user.archivefs.state"] == b"lost"
    assert digest == shown["sha256"], url
    if resource["error"] is None:
        assert xattrs.get("user.mime_type", b"").decode() == (resource["content_type"] or ""), url
        assert "user.archivefs.fallback" not in xattrs
    else:
        assert int(xattrs["user.archivefs.fallback"]) == resource["default_revision_id"]


@pytest.mark.parametrize("case", [name for name in _names() if name != "wide"], indirect=True)
def test_everything_can_be_asked(case: dict[str, Any]) -> None:
    """Every node of every view: looked up, by ident, its links inside, its attributes free of secrets."""
    if case["open"] == "refuse":
        return
    with opened(case["path"]) as tree:
        for parts, entry, node, _ in walk(tree):
            assert entry.ident == node.ident, parts
            assert tree.node(node.ident).kind is node.kind, parts
            said = " ".join(value.decode("utf-8", "replace") for value in node.xattrs().values())
            assert "SECRET" not in said, parts
            assert "NOT-TO-BE-SHOWN" not in said, parts
            if isinstance(node, Symlink):
                assert not node.target().startswith("/"), parts
        assert set(_stored_in_history(tree)) == _with_answers(case)


def _stored_in_history(tree: CrystalTree) -> Iterator[str]:
    for parts, _, node, _ in walk(tree):
        if parts[0] == "history" and parts[-1].endswith("^revs"):
            url = node.xattrs()["user.archivefs.url"]
            if url != b"https://x.example/\xff":
                yield url.decode("utf-8")


def _with_answers(case: dict[str, Any]) -> set[str]:
    return {url for url, resource in case["resources"].items() if resource["shown"]}


def test_roots_groups_and_aliases_of_the_basic_sample(samples: Path) -> None:
    with opened(samples / "v2-basic.crystalproj") as tree:
        assert shape(tree, "roots") == {
            "Home": "../web/https/site.example/index.html",
            "http:^2F^2Fother.example^2Fa": "../web/http/other.example/a",
        }
        groups = shape(tree, "groups")
        assert list(groups) == [
            "Posts",
            "Posts.json",
            "https:^2F^2Fsite.example^2Fpost^2F*^2F",
            "https:^2F^2Fsite.example^2Fpost^2F*^2F.json",
            "Ads",
            "Ads.json",
        ]
        assert list(groups["Posts"]) == ["1^2F", "2^2F", "3^2F", "4^2F", "5^2F"]  # type: ignore[call-overload]
        assert json.loads(groups["Ads.json"])["do_not_download"] is True  # type: ignore[arg-type]
        assert shape(tree, "aliases") == {
            "https:^2F^2Fwww.site.example^2F": "../web/https/site.example",
            "https:^2F^2Ffiles.example^2F.url": b"https://live.example/\n",
        }
