"""The program as it will lie on the machine: a Python environment of its own, with what .venv has of archivefs.

So what is installed is what was tested, and nothing is fetched.  The environment is no more than a link to Python, a
file that says so and the packages: it may be made elsewhere (DESTDIR) than it will lie.
"""

from __future__ import annotations

import compileall
import os
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

from contrib.install.places import Places, below

ROOT = Path(__file__).parents[2]
PACKAGE = "archivefs"
EXTRAS = ("all",)
SCRIPTS = {"archivefs": "main", "mount.archivefs": "mount_helper"}
"""The commands, and the functions of archivefs.__main__ that they call."""
KEPT = {"METADATA": ("METADATA", "PKG-INFO"), "entry_points.txt": ("entry_points.txt",)}
"""What says that the package is there and which formats it has, with the names under which it may be found; the rest is
about where it was installed from."""


def build_program(root: Path, places: Places) -> None:
    """Make the program below *root*, for *places*."""
    program = below(root, places.program)
    site = program / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    site.mkdir(parents=True)
    for dist in needed(distribution(PACKAGE), EXTRAS):
        _copy_distribution(dist, site)
    _copy_package(site)
    # The paths in tracebacks are those it will have.
    compileall.compile_dir(site, quiet=1, stripdir=str(root), prependdir="/", workers=0)
    _link_python(program)
    for name, function in SCRIPTS.items():
        _write_script(below(root, places.prefix) / "bin" / name, places.program / "bin" / "python", function)
    _link_helpers(root, places)


def needed(dist: Distribution, extras: tuple[str, ...]) -> Iterator[Distribution]:
    """What *dist* needs, and what that needs in turn."""
    waiting = [(dist, extras)]
    seen: set[tuple[str, str]] = set()
    while waiting:
        dist, extras = waiting.pop()
        for extra in extras or ("",):
            if (dist.name, extra) in seen:
                continue
            if dist.name != PACKAGE and not any(name == dist.name for name, _ in seen):
                yield dist
            seen.add((dist.name, extra))
            wanted = [Requirement(text) for text in dist.requires or ()]
            here = [each for each in wanted if each.marker is None or each.marker.evaluate({"extra": extra})]
            waiting += [(distribution(each.name), tuple(each.extras)) for each in here]


def _copy_distribution(dist: Distribution, site: Path) -> None:
    for file in dist.files or ():
        if file.parts[0] != ".." and "__pycache__" not in file.parts:
            (site / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(str(file.locate()), site / file)


def _copy_package(site: Path) -> None:
    shutil.copytree(ROOT / PACKAGE, site / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    dist = distribution(PACKAGE)
    about = site / f"{PACKAGE}-{dist.version}.dist-info"
    about.mkdir()
    for name, sources in KEPT.items():
        text = next(filter(None, map(dist.read_text, sources)))
        (about / name).write_text(text, encoding="utf-8")


def _link_python(program: Path) -> None:
    python = interpreter()
    (program / "bin").mkdir()
    (program / "bin" / "python").symlink_to(python)
    # With the packages of the system: one of them may bring a format.
    text = f"home = {python.parent}\ninclude-system-site-packages = true\nversion = {sys.version.split()[0]}\n"
    (program / "pyvenv.cfg").write_text(text)


def interpreter() -> Path:
    """The Python of .venv, or the system's own of the same version, which does not lie in somebody's home folder."""
    own = Path(os.path.realpath(sys.executable))
    system = Path("/usr/bin") / f"python{sys.version_info.major}.{sys.version_info.minor}{sys.abiflags}"
    return system if system.exists() else own


def closed_folder(path: Path) -> Path | None:
    """The folder above *path* that not everybody may enter, if there is one."""
    return next((folder for folder in path.parents if not folder.stat().st_mode & 0o001), None)


def _write_script(path: Path, python: Path, function: str) -> None:
    """-I: neither the environment nor the folder it is called in decides what root runs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"#!{python} -I\nimport sys\n\nfrom archivefs.__main__ import {function}\n\nsys.exit({function}())\n"
    )
    path.chmod(0o755)


def _link_helpers(root: Path, places: Places) -> None:
    """Where mount(8) looks for its helpers, whatever PREFIX is."""
    sbin = below(root, places.sbin)
    sbin.mkdir(parents=True, exist_ok=True)
    (sbin / "mount.archivefs").symlink_to(places.prefix / "bin" / "mount.archivefs")
    (sbin / "mount.fuse.archivefs").symlink_to("mount.archivefs")
