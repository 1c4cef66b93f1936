"""A crawl of workers: each of its runs is a worker."""

from __future__ import annotations

import pytest
from support.crawl import FEEDS, Crawl
from support.engines import Redis
from support.redis_server import RedisServer


@pytest.fixture
def engine(redis_server: RedisServer) -> Redis:
    return Redis(redis_server)


@pytest.fixture
def crawl(crawl: Crawl, engine: Redis) -> Crawl:  # noqa: ARG001 - it is that of the crawl
    crawl.settings |= {
        "BLOOMDUPE_EXPECTED_URLS": 10_000,
        # A worker that a busy machine holds up does not lose its pages; a test that
        # needs it to calls ``engine.end_leases()``.
        "BLOOMDUPE_REDIS_LEASE": 12,
        "FEEDS": FEEDS,
        "LOG_LEVEL": "INFO",
    }
    return crawl
