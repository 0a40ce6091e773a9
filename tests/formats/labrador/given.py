"""Samples that somebody else made, where they are: a folder ``shared`` beside the project.  Otherwise a skip."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SHARED = Path(__file__).resolve().parents[3].parent / "shared"


def shared(name: str) -> Path:
    """A file in that folder; skips the test where there is none."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"there is no {name} beside the project")
    return path


def archives(folder: Path) -> dict[str, Any]:
    """Every sample archive, written into *folder*: by name what is expected of it."""
    maker = shared("samples/make_labrador.py")
    made = subprocess.run([sys.executable, str(maker), str(folder)], capture_output=True, text=True, check=True)
    expected: dict[str, Any] = json.loads(made.stdout)
    return expected


@cache
def hostile_zips() -> ModuleType:
    """The generator of hostile zips."""
    spec = importlib.util.spec_from_file_location("hostile_zips", shared("faults/badzips.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
