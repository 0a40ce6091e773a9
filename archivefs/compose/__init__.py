"""Trees made of other trees.  They hand out the inner trees' own nodes, so nothing is wrapped.

``MountTree`` shows many archives under one root, ``FolderTree`` the archives that lie in a folder, and
``SubTree`` a directory of a tree as if it were the root.  The command line puts them together.
"""

from archivefs.compose.archives import MountTree, shown_name, shown_names
from archivefs.compose.folder import FolderTree, Opener
from archivefs.compose.subtree import SubTree

__all__ = ["FolderTree", "MountTree", "Opener", "SubTree", "shown_name", "shown_names"]
