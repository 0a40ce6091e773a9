"""Which keys the files of an edited archive have: names that were given since it was opened, and those it had.

A new name is encoded; one whose encoding begins with ``index.`` is escaped, unless the file becomes the document of its
directory.  That is decided when the name is given, and written down here; everything else keeps its key.

The lock of the overlay guards all of this.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator

from archivefs.errors import AlreadyExists, NameNotHeld, NameTooLong, NotFound, NotSupported
from archivefs.formats.labrador import bitsy
from archivefs.formats.labrador.bitsy import BitsyError
from archivefs.formats.labrador.keys import (
    ESCAPED_INDEX,
    INDEX,
    MAX_KEY_LENGTH,
    NORMAL_INDEX,
    decoded_name,
    is_index,
    normalize_name,
)
from archivefs.formats.labrador.naming import Names
from archivefs.formats.labrador.tree import LabradorTree, SiteDirectory, SiteFile
from archivefs.staging.overlay import OverlayDirectory, OverlayFile

INDEX_NAMES = ("html", "htm", "xhtml")
"""A new file called ``index.`` and one of these becomes the document of its directory."""

AnyNode = OverlayDirectory | OverlayFile


def encoded(name: str) -> str:
    """The component that an ordinary file or directory of this name gets; raises NameNotHeld, NameTooLong."""
    try:
        component = bitsy.encode(name)
    except BitsyError as error:
        if error.kind == "too_long":
            raise NameTooLong("the name is too long for Bitsy", member=name) from None
        raise NameNotHeld(f"the name cannot be encoded: {error.problem}", member=name) from None
    return escaped(component)


def escaped(component: str) -> str:
    """An encoded component that does not begin with ``index.``; raises NameTooLong."""
    if is_index(component):
        component = ESCAPED_INDEX + component.removeprefix(INDEX)
    if len(component) > bitsy.MAX_LENGTH:
        raise NameTooLong("the encoded name is too long", member=component)
    return component


def document_name(name: str, extensions: tuple[str, ...]) -> str | None:
    """The component of a file called *name* that is to be its directory's document, or None if it is not to be."""
    wanted = any(name == INDEX + extension for extension in extensions)
    return name if wanted and bitsy.is_strict_name(name) else None


class NewNames:
    """The keys in one overlay over a LabradorTree."""

    def __init__(self, base: LabradorTree, extensions: tuple[str, ...] = INDEX_NAMES) -> None:
        self.base = base
        self._extensions = extensions
        self._given: weakref.WeakKeyDictionary[AnyNode, str] = weakref.WeakKeyDictionary()
        """The last component of the key, for what was given a name since the archive was opened."""
        self._documents: weakref.WeakKeyDictionary[OverlayDirectory, OverlayFile] = weakref.WeakKeyDictionary()
        """Files that were made the document of a directory; one may have moved away since."""
        self._odd: weakref.WeakKeyDictionary[OverlayDirectory, dict[str, AnyNode]] = weakref.WeakKeyDictionary()
        """By directory: what was given a name that is read back as another (é in two characters becomes one)."""
        self._moving: AnyNode | None = None

    # -- what there is --

    def component(self, node: AnyNode) -> str:
        """The last component of its key."""
        given = self._given.get(node)
        if given is not None:
            return given
        base = node.base
        if isinstance(base, SiteFile):
            return base.tree.manifest.key(base.record).rpartition("/")[2]
        if isinstance(base, SiteDirectory):
            return base.tree.manifest.written_directory_name(base.number)
        return encoded(node.name)

    def is_document(self, node: AnyNode) -> bool:
        """Is it the document of its directory?"""
        return isinstance(node, OverlayFile) and is_index(self.component(node).lower())

    def key(self, node: AnyNode) -> str:
        """The whole key of a file or directory; nothing for the root."""
        if node.parent is None:
            return ""
        if isinstance(node.base, SiteFile) and not self.moved(node):
            return node.base.tree.manifest.key(node.base.record)
        above = self.key(node.parent)
        return f"{above}/{self.component(node)}" if above else self.component(node)

    def moved(self, node: AnyNode) -> bool:
        """Was it, or a directory that it is in, given a name since the archive was opened?"""
        here: AnyNode | None = node
        while here is not None:
            if here in self._given:
                return True
            here = here.parent
        return False

    def document(self, directory: OverlayDirectory, *, but: AnyNode | None = None) -> AnyNode | None:
        """The document of *directory*, or what takes its place, other than *but*."""
        made = self._documents.get(directory)
        if made is not None and made is not but and self._is_there(made, directory) and self.is_document(made):
            return made
        names = self._names(directory)
        for child in (*names.indexes, *names.meant(NORMAL_INDEX)) if names else ():
            node = _child(directory, names.shown(child)) if names else None
            if node is not None and node is not but and self._is_like_document(node):
                return node
        return None

    def _is_like_document(self, node: AnyNode) -> bool:
        """Does its key count as a document's when keys are compared?"""
        try:
            return isinstance(node, OverlayFile) and normalize_name(self.component(node)) == NORMAL_INDEX
        except BitsyError:
            return False

    @staticmethod
    def _is_there(node: AnyNode, directory: OverlayDirectory) -> bool:
        return node.parent is directory and not node.removed

    def _names(self, directory: OverlayDirectory) -> Names | None:
        base = directory.base
        return base.tree.names(base.number) if isinstance(base, SiteDirectory) else None

    # -- may it be called so? --

    def moving(self, node: AnyNode) -> None:
        """The next name that is checked is for *node*, which may clash with itself."""
        self._moving = node

    def check(self, directory: OverlayDirectory, name: str) -> None:
        """Raise NameNotHeld, NameTooLong or AlreadyExists unless *name* may be given in *directory*."""
        node, self._moving = self._moving, None
        component = encoded(name)
        above = self.key(directory)
        if len(above) + len(component) + bool(above) > MAX_KEY_LENGTH:
            raise NameTooLong("the path is too long for the format", member=name)
        self._check_alone(directory, decoded_name(component.lower()), but=node)

    def _check_alone(self, directory: OverlayDirectory, meaning: str, *, but: AnyNode | None) -> None:
        """Raise AlreadyExists if something other than *but* has a key that reads as *meaning*."""
        for node in self._same(directory, meaning):
            if node is but or self.is_document(node):
                continue
            if decoded_name(self.component(node).lower()) == meaning:
                problem = f"the format cannot tell the name from that of {node.name!r}"
                raise AlreadyExists(problem, member=meaning)

    def _same(self, directory: OverlayDirectory, meaning: str) -> Iterator[AnyNode]:
        """What may read as *meaning*, under whatever name it is shown."""
        names = self._names(directory)
        shown = {meaning, *(names.shown(child) for child in names.meant(meaning))} if names else {meaning}
        for name in shown:
            node = _child(directory, name)
            if node is not None:
                yield node
        odd = self._odd.get(directory, {}).get(meaning)
        if odd is not None and self._is_there(odd, directory):
            yield odd

    # -- it is called so --

    def named(self, node: AnyNode, replaced: AnyNode | None) -> None:
        """*node* was given the name it has; it takes the key of a file that it has *replaced*."""
        directory = node.parent
        assert directory is not None
        if isinstance(node, OverlayFile):
            taken = self.component(replaced) if isinstance(replaced, OverlayFile) else None
            self._give(node, taken or self._file_component(node, directory))
        else:
            self._give(node, encoded(node.name))

    def _file_component(self, file: OverlayFile, directory: OverlayDirectory) -> str:
        document = document_name(file.name, self._extensions)
        if document is not None and self.document(directory, but=file) is None:
            return document
        return encoded(file.name)

    def _give(self, node: AnyNode, component: str) -> None:
        directory = node.parent
        assert directory is not None
        self._given[node] = component
        if isinstance(node, OverlayFile) and is_index(component.lower()):
            self._documents[directory] = node
        meaning = decoded_name(component.lower())
        if meaning != node.name:
            self._odd.setdefault(directory, {})[meaning] = node

    def switch(self, file: OverlayFile, *, document: bool) -> None:
        """Make *file* its directory's document or an ordinary file; raises AlreadyExists, NotSupported."""
        component = self.component(file)
        if self.is_document(file) == document:
            return
        if document:
            if not component.lower().startswith(ESCAPED_INDEX):
                raise NotSupported("only a file called index.* can be the document of its directory", member=file.name)
            other = self.document(file.parent, but=file)
            if other is not None:
                raise AlreadyExists(f"the directory has a document already, {other.name!r}", member=file.name)
            self._give(file, INDEX + component[len(ESCAPED_INDEX) :].lower())
            return
        ordinary = escaped(component.lower())
        self._check_alone(file.parent, decoded_name(ordinary), but=file)
        self._give(file, ordinary)

    # -- another archive underneath --

    def find_again(self, base: SiteDirectory, node: AnyNode) -> str | None:
        """The name under which *base*, of a later state of the archive, shows *node*."""
        names = base.tree.names(base.number)
        component = self.component(node).lower()
        is_file = isinstance(node, OverlayFile)
        candidates = names.indexes if is_file and is_index(component) else names.meant(decoded_name(component))
        for child in candidates:
            if (names.directory(child) is None) != is_file:
                continue
            if not is_file or base.tree.manifest.name(names.record(child)) == component:
                return names.shown(child)
        return None

    def rebased(self, base: LabradorTree) -> None:
        """Everything that was given a name is in *base*, but for what has no content yet."""
        self.base = base
        left = [(node, component) for node, component in self._given.items() if node.base is None and not node.removed]
        self.forget()
        for node, component in left:
            self._give(node, component)

    def forget(self) -> None:
        """Nothing was given a name."""
        self._given.clear()
        self._documents.clear()
        self._odd.clear()


def _child(directory: OverlayDirectory, name: str) -> AnyNode | None:
    try:
        return directory.child(name)
    except NotFound:
        return None
