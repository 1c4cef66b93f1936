"""A crawl of workers: each of its runs is a worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.crawl import FEEDS, Crawl
from support.engines import Redis
from support.redis_server import RedisServer
from support.site import Pages, Site, graph


@pytest.fixture
def redis(redis_server: RedisServer) -> RedisServer:
    """Return a server with nothing in it."""
    with redis_server.client() as client:
        client.flushall()
    return redis_server


@pytest.fixture
def pages() -> Pages:
    return graph(150)


@pytest.fixture
def crawl(tmp_path: Path, site: Site, redis: RedisServer) -> Iterator[Crawl]:
    shared = {
        "BLOOMDUPE_EXPECTED_URLS": 10_000,
        # A worker that a busy machine holds up does not lose its pages; a test that
        # needs it to calls ``redis.end_leases()``.
        "BLOOMDUPE_REDIS_LEASE": 12,
        "FEEDS": FEEDS,
        "LOG_LEVEL": "INFO",
    }
    with Crawl(tmp_path, site, Redis(redis, "crawl"), **shared) as crawl:
        crawl.starts = ("/0",)
        yield crawl
