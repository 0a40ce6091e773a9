"""The arrows between the layers: who may import whom.  There are no others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import archivefs

PACKAGE = Path(archivefs.__file__).parent

ARROWS: dict[str, set[str]] = {
    "errors": set(),
    "tree": {"errors"},
    "options": {"errors"},
    "names": {"errors"},
    "urlnames": {"errors"},
    "readers": {"tree", "errors"},
    "caches": {"options"},
    "format": {"tree", "errors", "caches", "options"},
    "memory": {"format", "tree", "errors", "options", "readers"},
    "compose": {"format", "tree", "errors", "options", "readers"},
    "plugins": set(),
    "registry": {"format", "tree", "errors", "options", "plugins", "readers"},
    "zips": {"readers", "caches", "tree", "errors", "options"},
    "staging": {"readers", "caches", "tree", "errors", "options"},
    "formats": {
        "format",
        "tree",
        "errors",
        "options",
        "readers",
        "names",
        "urlnames",
        "caches",
        "zips",
        "staging",
    },
    "fuse": {"tree", "errors", "caches", "options", "format", "readers"},
    "web": {"tree", "errors", "caches", "format"},
    "cli": {
        "registry",
        "compose",
        "fuse",
        "web",
        "format",
        "tree",
        "errors",
        "options",
        "readers",
        "caches",
        "names",
        "urlnames",
        "memory",
        "staging",
        "zips",
    },
    "__main__": {"cli"},
    "__init__": set(),
}
"""A layer, and what it may import beside itself.  ``archivefs`` alone, for its version, is free to all."""

FOREIGN = {
    "fuse": "fuse/fusepy.py",
    "click": "cli/ formats/",
    "yaml": "cli/ formats/",
    "cachetools": "caches.py",
    "sqlite3": "formats/",
    "starlette": "web/",
    "uvicorn": "web/",
}
"""Libraries that only some may import, since not everybody has them or wants to wait for them."""

MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the full name of everything a module imports, also within functions and for types alone."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are written out in full"
            assert node.module is not None
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def layer_of(parts: tuple[str, ...]) -> str:
    """The layer of a module, given as its path below the package."""
    return Path(parts[0]).stem


def unit_of(parts: tuple[str, ...]) -> str:
    """What may import itself: a layer, or one format."""
    return "/".join(parts[:2]) if parts[0] == "formats" and len(parts) > 1 else layer_of(parts)


def problems(module: Path, source: Path) -> Iterator[str]:
    """What *module* imports and should not."""
    layer, unit = layer_of(module.parts), unit_of(module.parts)
    for line, name in imports(source):
        parts = tuple(name.split("."))
        if parts[0] != "archivefs":
            allowed = FOREIGN.get(parts[0])
            if allowed is not None and not module.as_posix().startswith(tuple(allowed.split())):
                yield f"{module}:{line} imports {parts[0]}, which only {allowed} may"
        elif (PACKAGE / parts[1]).is_dir() or (PACKAGE / f"{parts[1]}.py").is_file():
            target = layer_of(parts[1:])
            if target not in ARROWS[layer] and unit_of(parts[1:]) != unit:
                yield f"{module}:{line} imports {name}: there is no arrow from {unit} to {target}"


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_module_imports_only_what_its_layer_may(module: Path) -> None:
    assert layer_of(module.parts) in ARROWS, f"{module} belongs to no layer in the table"
    assert list(problems(module, PACKAGE / module)) == []


@pytest.mark.parametrize(
    ("module", "code", "problem"),
    [
        ("tree.py", "import archivefs.fuse.driver", "there is no arrow from tree to fuse"),
        ("formats/zip/tree.py", "from archivefs.formats.labrador import x", "no arrow from formats/zip to formats"),
        ("formats/zip/tree.py", "from archivefs import registry", "no arrow from formats/zip to registry"),
        ("fuse/driver.py", "def f():\n    from archivefs.formats import zip", "no arrow from fuse to formats"),
        ("fuse/driver.py", "from fuse import FUSE", "imports fuse, which only fuse/fusepy.py may"),
        ("cli/ls.py", "from archivefs.formats.zip import FORMAT", "no arrow from cli to formats"),
        ("memory.py", "import click", "imports click, which only cli/ formats/ may"),
    ],
)
def test_a_forbidden_import_is_found(tmp_path: Path, module: str, code: str, problem: str) -> None:
    (tmp_path / "module.py").write_text(code)
    found = list(problems(Path(module), tmp_path / "module.py"))
    assert len(found) == 1
    assert problem in found[0]


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("formats/zip/tree.py", "from archivefs.formats.zip import names\nfrom archivefs.zips.members import x"),
        ("fuse/fusepy.py", "import fuse"),
        ("cli/ls.py", "from archivefs import __version__, registry"),
        ("tree.py", "import os, enum"),
    ],
)
def test_an_allowed_import_is_not_complained_of(tmp_path: Path, module: str, code: str) -> None:
    (tmp_path / "module.py").write_text(code)
    assert list(problems(Path(module), tmp_path / "module.py")) == []


def test_the_table_draws_no_circle() -> None:
    left = {layer: set(targets) for layer, targets in ARROWS.items()}
    while left:
        free = [layer for layer, targets in left.items() if not targets & left.keys()]
        assert free, f"these import each other: {sorted(left)}"
        for layer in free:
            del left[layer]
