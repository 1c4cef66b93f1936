"""A server for all tests of a module, and a name in it for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from redis.client import Pipeline
from support.redis_cluster import RedisCluster
from support.redis_server import RedisServer

_numbers = count()


@pytest.fixture
def server(redis_server: RedisServer) -> RedisServer:
    """Return a server without persistence."""
    return redis_server


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


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], int]:
    """Return a function that counts how often a call waits for answers."""
    sent: list[Pipeline] = []
    execute = Pipeline.execute

    def counted(self: Pipeline, *arguments: Any, **options: Any) -> Any:
        sent.append(self)
        return execute(self, *arguments, **options)

    monkeypatch.setattr(Pipeline, "execute", counted)

    def count(call: Callable[[], object]) -> int:
        before = len(sent)
        call()
        return len(sent) - before

    return count
