"""A server for all tests of a module, and a name in it for each test."""

from __future__ import annotations

from itertools import count

import pytest
from support.redis_server import RedisServer

_numbers = count()


@pytest.fixture
def server(redis_server: RedisServer) -> RedisServer:
    """Return a server without persistence."""
    return redis_server


@pytest.fixture
def name() -> str:
    """Return a name that no other filter has."""
    return f"seen {next(_numbers)}"


@pytest.fixture
def url(server: RedisServer, name: str) -> str:
    """Return the URL of a filter that is not there yet."""
    return server.url(name)
