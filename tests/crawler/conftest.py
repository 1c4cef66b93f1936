from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# Last, so that an installed bloomdupe is the one that is tested; crawler is never
# installed.
sys.path.append(str(Path(__file__).parents[2]))

from harness import Project, SampleProcess, sample_process

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def sample(tmp_path: Path) -> Iterator[SampleProcess]:
    """Serve a sample site of 100 pages."""
    with sample_process(tmp_path) as server:
        yield server
