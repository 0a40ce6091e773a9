"""Random changes to a Labrador archive beside a plain dict, with commits, crashes and reopening in between."""

from __future__ import annotations

import logging
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from archivefs.errors import ArchiveError
from archivefs.tree import Directory, Parts
from tests.formats.labrador import edits
from tests.samples import labrador as samples

NAMES = st.sampled_from(["a", "B", "ü", "index.html", "index.htm", "index.js", "con", "x y.txt", "xq--index-x.html"])
FOLDERS = st.lists(NAMES, max_size=2).map(tuple)
DATA = st.one_of(st.binary(max_size=20), st.integers(1, 4).map(lambda n: bytes([n]) * 40_000))


class Edits(RuleBasedStateMachine):
    """The model is a dict of files by path; directories are implied, as in the format."""

    def __init__(self) -> None:
        super().__init__()
        logging.getLogger("archivefs.labrador").setLevel(logging.CRITICAL)
        self.folder = Path(tempfile.mkdtemp())
        self.files: dict[Parts, bytes] = {}

    @initialize()
    def begin(self) -> None:
        self.path = samples.write(self.folder / "site.lbz", {"/": b"home", "/a/B": b"b", "/a/x y.txt": b"b"})
        self.files = {("index.html",): b"home", ("a", "B"): b"b", ("a", "x y.txt"): b"b"}
        self.tree = edits.open_rw(self.path)

    def teardown(self) -> None:
        self.tree.close()
        shutil.rmtree(self.folder)
        logging.getLogger("archivefs.labrador").setLevel(logging.NOTSET)

    # -- the model --

    def is_folder(self, parts: Parts) -> bool:
        return not parts or any(path[: len(parts)] == parts and path != parts for path in self.files)

    def possible(self, parts: Parts) -> bool:
        """May a file be there: nothing above it is a file, and it is no directory?"""
        return not any(parts[:length] in self.files for length in range(1, len(parts))) and not self.is_folder(parts)

    # -- changes --

    @rule(folder=FOLDERS, name=NAMES, data=DATA)
    def write(self, folder: Parts, name: str, data: bytes) -> None:
        parts = (*folder, name)
        if self.possible(parts) and not self.has_empty_folder(parts):
            edits.write(self.tree, "/".join(parts), data)
            self.files[parts] = data

    def has_empty_folder(self, parts: Parts) -> bool:
        """Directories that lost their files live on until the tree is closed."""
        try:
            return isinstance(self.tree.lookup(parts), Directory)
        except ArchiveError:
            return False

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        if self.files:
            parts = data.draw(st.sampled_from(sorted(self.files)))
            edits.remove(self.tree, "/".join(parts))
            del self.files[parts]

    @rule(data=st.data(), folder=FOLDERS, name=NAMES)
    def rename(self, data: st.DataObject, folder: Parts, name: str) -> None:
        if not self.files:
            return
        source = data.draw(st.sampled_from(sorted(self.files)))
        source = source[: data.draw(st.integers(1, len(source)))]
        target = (*folder, name)
        try:
            edits.move(self.tree, "/".join(source), "/".join(target))
        except ArchiveError:
            return
        moved = {path: self.files.pop(path) for path in list(self.files) if path[: len(source)] == source}
        self.files.pop(target, None)
        self.files.update({target + path[len(source) :]: content for path, content in moved.items()})

    @rule(data=st.data(), document=st.booleans())
    def switch(self, data: st.DataObject, document: bool) -> None:
        candidates = sorted(path for path in self.files if path[-1].startswith("index."))
        if candidates:
            node = edits.file(self.tree, *data.draw(st.sampled_from(candidates)))
            try:
                node.set_xattr("user.archivefs.index", b"1" if document else b"0")
            except ArchiveError:
                return
            assert node.xattrs()["user.archivefs.index"] == (b"1" if document else b"0")

    @rule()
    def commit(self) -> None:
        keys = self.keys()
        self.tree.commit(edits.no_progress)
        assert self.keys() == keys
        expected = {key: samples.digest_of(self.files[parts]) for parts, key in keys.items()}
        assert edits.manifest(self.path) == expected
        assert edits.findings(self.path) == []
        assert nested(edits.site(self.path)) == self.files

    @rule()
    def crash_and_come_back(self) -> None:
        keys = self.keys()
        self.tree.close()
        self.tree = edits.open_rw(self.path)
        assert self.keys() == keys

    def keys(self) -> dict[Parts, str]:
        return {parts: edits.file(self.tree, *parts).xattrs()["user.archivefs.key"].decode() for parts in self.files}

    # -- what must hold --

    @invariant()
    def the_same_files(self) -> None:
        if not hasattr(self, "tree"):
            return
        assert nested(edits.content_of(self.tree.root())) == self.files

    @invariant()
    def at_most_one_document_a_directory(self) -> None:
        if not hasattr(self, "tree"):
            return
        keys = list(self.keys().values())
        assert len({key.lower() for key in keys}) == len(keys)
        documents = [key.rpartition("/")[0] for key in keys if key.rpartition("/")[2].startswith("index.")]
        assert len(set(documents)) == len(documents)


def nested(content: dict[str, Any], prefix: Parts = ()) -> dict[Parts, bytes]:
    found: dict[Parts, bytes] = {}
    for name, value in content.items():
        found.update(nested(value, (*prefix, name)) if isinstance(value, dict) else {(*prefix, name): value})
    return found


TestEdits = Edits.TestCase
TestEdits.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate]
)
