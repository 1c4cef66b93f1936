"""What some tests need: data beside the repository, programs and packages."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SHARED = REPOSITORY.parent / "shared"


def needs(path: Path, reason: str) -> Path:
    """Return a path, or skip the test without it (in CI: fail)."""
    if not path.exists():
        _lacks(f"{reason}: {path} is missing")
    return path


def needs_program(name: str) -> str:
    """Return the path of a program, or skip the test without it (in CI: fail)."""
    path = shutil.which(name)
    if path is None:
        _lacks(f"needs {name}")
    return path


def needs_package(*names: str) -> None:
    """Skip the test without these packages (in CI: fail)."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            _lacks(f"needs {name}: pip install '.[test-all]'")


def _lacks(reason: str) -> NoReturn:
    if os.environ.get("BLOOMDUPE_TEST_ALL"):
        pytest.fail(reason)
    pytest.skip(reason)
