from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.harness import Project, SampleProcess, sample_process


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def sample(tmp_path: Path) -> Iterator[SampleProcess]:
    """Serve a sample site of 100 pages."""
    with sample_process(tmp_path) as server:
        yield server
