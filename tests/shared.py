"""A folder of further test material that may lie beside the project; nothing depends on it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


def shared(*parts: str) -> Path:
    """A file or folder of that material; the test is skipped where it is not there."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{'/'.join(parts)} is not beside the project")
    return path


def shared_module(*parts: str) -> ModuleType:
    """A Python file of that material, loaded; the test is skipped where it is not there."""
    path = shared(*parts)
    spec = importlib.util.spec_from_file_location(f"shared_{path.stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
