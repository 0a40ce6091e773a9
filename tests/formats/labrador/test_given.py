"""The samples made by somebody else: good ones against their expected tree, bad ones against their one code."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from archivefs.format import Match, Probe
from archivefs.formats.labrador import FORMAT
from archivefs.tree import File
from tests.formats.labrador import given
from tests.formats.labrador.opening import attributes, error_codes, findings, opened_archive
from tests.walking import content_of, walk


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("samples")
    return folder, given.archives(folder)


def test_good_samples_look_as_expected(samples: tuple[Path, dict[str, Any]]) -> None:
    folder, expected = samples
    good = {name: facts["tree"] for name, facts in expected.items() if "tree" in facts}
    assert len(good) >= 6
    for name, tree in good.items():
        externals = [folder / "external-base.lbz"] if name == "external-update.lbz" else []
        assert found_in(folder / name, *externals) == tree, name
        assert error_codes(findings(folder / name)) == set(), name


def found_in(path: Path, *externals: Path) -> dict[str, Any]:
    found = {}
    with opened_archive(path, *externals) as tree:
        for parts, _, node, _ in walk(tree):
            if isinstance(node, File):
                facts = attributes(tree, "/".join(parts))
                data = content_of(node)
                assert isinstance(data, bytes)
                assert hashlib.sha256(data).hexdigest() == facts["digest"]
                found["/".join(parts)] = {
                    "sha256": facts["digest"],
                    "size": node.attributes().size,
                    "mime": facts["mime"],
                    "state": facts["state"],
                    "kind": "index" if facts["index"] == "1" else "file",
                }
    return found


def test_bad_samples_break_exactly_their_rule(samples: tuple[Path, dict[str, Any]]) -> None:
    folder, expected = samples
    bad = {name: facts["breaks"] for name, facts in expected.items() if "breaks" in facts}
    assert len(bad) >= 40
    assert {name: error_codes(findings(folder / name)) for name in bad} == {name: {code} for name, code in bad.items()}


def test_bad_samples_are_recognised_unless_their_mimetype_is_wrong(samples: tuple[Path, dict[str, Any]]) -> None:
    folder, expected = samples
    unknown = {name for name in expected if FORMAT.match(Probe(str(folder / name))) is Match.NO}
    assert unknown == {name for name in expected if name.startswith(("bad-mimetype-value", "bad-zip-unreadable--not"))}


def test_bad_samples_can_be_mounted_all_the_same(samples: tuple[Path, dict[str, Any]]) -> None:
    folder, expected = samples
    for name in expected:
        if not name.startswith(("bad-zip-unreadable", "bad-missing-file--manifest")):
            with opened_archive(folder / name) as tree:
                list(walk(tree))


def test_the_vectors_are_ours(tmp_path: Path) -> None:
    ours = Path(__file__).parents[2] / "vectors" / "labrador" / "bitsy.tsv"
    assert ours.read_bytes() == given.shared("vectors/bitsy.tsv").read_bytes()
