"""A replica takes the place of the master that a sentinel names, in a crawl."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from spiders.workers import All
from support.crawl import Crawl
from support.engines import Redis
from support.judge import lines
from support.redis_groups import RedisSentinel
from support.site import Site, graph

from bloomdupe.store.redis.address import Address

PAGES, STARTS = graph(150), ("/0",)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Redis]:
    with RedisSentinel(tmp_path / "redis") as sentinel:
        yield Redis(sentinel)


@pytest.mark.slow
def test_each_item_is_there_once_after_a_failover(
    crawl: Crawl, site: Site, engine: Redis
) -> None:
    site.hold_after(40)
    crew = [crawl.start(All) for _ in range(2)]
    crew[0].until(lambda: len(site.log) > 40)
    # A worker that only just starts is refused while its Redis is away.
    crew[1].until_logged("This is worker")
    engine.server.kill_master()
    site.release()
    for worker in crew:
        worker.until_finished()
    assert lines(crawl.items()) == lines({"page": n} for n in range(150))


def test_the_url_of_a_service() -> None:
    address = Address.of("redis+sentinel://me:pw@one:1,[::2]:2,three/crawls/4?a=5#job")
    assert address.sentinels == (("one", 1), ("::2", 2), ("three", 26_379))
    assert address.service == "crawls"
    assert address.server == "redis://me:pw@sentinel/4?a=5"
    assert address.shown == "redis+sentinel://me@one:1,[::2]:2,three/crawls/4#job"
