"""The state of a host goes with it from worker to worker; the judge is the site."""

from __future__ import annotations

from typing import Any

import pytest
from spiders.workers import Plain
from support.crawl import Crawl
from support.judge import lines
from support.redis_server import RedisServer
from support.site import Answer, Pages, graph, links

HOLD = 3


@pytest.fixture
def pages() -> Pages:
    return graph(42)


def states(crawl: Crawl) -> list[bytes]:
    """Return what is remembered of slots."""
    engine: Any = crawl.engine
    found = (
        slot.state for snapshot in engine.crawl.snapshots() for slot in snapshot.slots()
    )
    return [state for state in found if state]


@pytest.mark.slow
def test_retry_after_is_obeyed_by_the_next_owner(
    crawl: Crawl, redis: RedisServer
) -> None:
    crawl.settings["RETRY_ENABLED"] = True
    busy = Answer("", 503, {"Retry-After": f"{HOLD}"})
    crawl.site.pages = {"/0": [busy, links("/1")], "/1": "a page"}
    one = crawl.start(Plain)
    one.until(lambda: states(crawl))
    one.kill()
    redis.end_leases("crawl")
    (two,) = crawl.finish(Plain)
    assert "Finished; 2 pages, 2 items" in two.log
    first, second = crawl.site.times("/0")
    assert second - first >= HOLD - 0.01
    assert lines(crawl.items()) == lines([{"page": "0"}, {"page": "1"}])
