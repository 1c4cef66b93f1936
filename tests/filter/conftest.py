"""A server for all tests of a process, and a name in it for each test."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.redis_server import RedisServer


@pytest.fixture
def name(tmp_path: Path) -> str:
    """Return a name that no other filter has."""
    return tmp_path.name


@pytest.fixture
def url(redis_server: RedisServer, name: str) -> str:
    """Return the URL of a filter that is not there yet."""
    return redis_server.url(name)
