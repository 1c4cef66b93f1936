"""What several test modules share."""

from __future__ import annotations

import lzma
import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = REPOSITORY.parent / "shared"


def needs(path: Path, reason: str) -> Path:
    """Return a path, or skip the test without it (in CI: fail)."""
    if not path.exists():
        if os.environ.get("BLOOMDUPE_TEST_EVERYTHING"):
            pytest.fail(f"{reason}: {path} is missing")
        pytest.skip(f"{reason}: {path} is missing")
    return path


@pytest.fixture(scope="session")
def real_urls() -> list[str]:
    """299,355 URLs of government sites, distinct."""
    path = needs(SHARED / "urls" / "dev_eot.txt.xz", "needs the shared URL lists")
    return lzma.decompress(path.read_bytes()).decode().splitlines()


@pytest.fixture(scope="session")
def absent_urls() -> list[str]:
    """125,987 URLs of other sites."""
    path = needs(SHARED / "urls" / "dev_mixed.txt.xz", "needs the shared URL lists")
    return lzma.decompress(path.read_bytes()).decode().splitlines()
