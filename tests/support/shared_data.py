"""Requirements of some tests: data beside the repository, programs and packages."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SHARED = REPOSITORY.parent / "shared"


def needs_program(name: str, package: str | None = None) -> str:
    """Return the path of a program, or skip the test without it (in CI: fail).

    It is in the Debian package of its own name, or in ``package``.
    """
    path = shutil.which(name)
    if path is None:
        lacks(f"needs {name}: `apt install {package or name}`")
    return path


def needs_package(*names: str) -> None:
    """Skip the test without these packages (in CI: fail)."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            lacks(f"needs {name}: `pip install '.[test-all]'`")


def lacks(reason: str) -> NoReturn:
    """Skip the test for this reason (in CI: fail)."""
    if os.environ.get("BLOOMDUPE_TEST_ALL"):
        pytest.fail(reason)
    pytest.skip(reason)
