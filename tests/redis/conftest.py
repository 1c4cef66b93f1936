"""A server for all tests of a module, and a name in it for each test."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest
from support.redis_cluster import RedisCluster
from support.redis_server import RedisServer

if TYPE_CHECKING:
    from collections.abc import Iterator

_numbers = count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Yield a server without persistence."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as started:
        yield started


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RedisServer]]:
    """Yield the servers of a Cluster."""
    with RedisCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster.nodes


@pytest.fixture
def name() -> str:
    """Return a name that no other filter has."""
    return f"seen {next(_numbers)}"


@pytest.fixture
def url(server: RedisServer, name: str) -> str:
    """Return the URL of a filter that is not there yet."""
    return server.url(name)
