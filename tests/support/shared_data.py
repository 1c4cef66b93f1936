"""Data beside the repository that some tests need."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SHARED = REPOSITORY.parent / "shared"


def needs(path: Path, reason: str) -> Path:
    """Return a path, or skip the test without it (in CI: fail)."""
    if not path.exists():
        if os.environ.get("BLOOMDUPE_TEST_ALL"):
            pytest.fail(f"{reason}: {path} is missing")
        pytest.skip(f"{reason}: {path} is missing")
    return path
