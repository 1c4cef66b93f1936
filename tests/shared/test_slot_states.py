"""The state of a host goes with it from worker to worker; the judge is the site."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from spiders.workers import All, Plain
from support.judge import lines
from support.site import Answer, graph, links

if TYPE_CHECKING:
    from support.crawl import Crawl
    from support.redis_server import RedisServer
    from support.site import Pages

FOREVER = 600
"""Seconds; no test waits for so long."""
HOLD = 6


@pytest.fixture
def pages() -> Pages:
    return graph(42)


def job(crawl: Crawl) -> Any:
    return json.loads(crawl.bloomdupe("info", crawl.engine.job, "--json"))["job"]


def states(redis: RedisServer) -> list[Any]:
    """Return the states of all slots."""
    with redis.client() as client:
        keys = client.keys("bloomdupe:{crawl:*}:about")
        return [json.loads(one) for key in keys for one in client.hvals(key)]


@pytest.mark.slow
def test_a_worker_that_joins_has_work_at_once_whatever_the_delays(crawl: Crawl) -> None:
    """Nobody looks at the leases again before the test is over."""
    crawl.settings |= {
        "BLOOMDUPE_REDIS_LEASE": FOREVER,
        "DOWNLOAD_DELAY": FOREVER,
        "RANDOMIZE_DOWNLOAD_DELAY": False,
    }
    crawl.site.hold_after(1)
    one = crawl.start(All, CONCURRENT_REQUESTS=1)
    one.until_requested(2)  # so six hosts have requests, and were not asked
    two = crawl.start(All)
    two.until_requested(2)
    crawl.site.release()
    for worker in (one, two):
        assert worker.interrupt().status == 0


@pytest.mark.slow
def test_retry_after_is_seen_and_obeyed_by_the_next_owner(
    crawl: Crawl, redis: RedisServer
) -> None:
    crawl.settings |= {"RETRY_ENABLED": True, "BLOOMDUPE_MAX_RETRY_AFTER": HOLD}
    busy = Answer("", 503, {"Retry-After": "1000"})
    crawl.site.pages = {"/0": [busy, links("/1")], "/1": "a page"}
    one = crawl.start(Plain)
    one.until_requested(1)
    one.until(lambda: job(crawl)["resting"])
    (found,) = job(crawl)["resting"].values()
    assert found["reason"] == "Retry-After"
    text = crawl.bloomdupe("info", crawl.engine.job)
    assert "rests until" in text
    assert "(Retry-After)" in text
    one.kill()
    redis.end_leases("crawl")
    crawl.finish(Plain)
    first, second = crawl.site.times("/0")
    assert second - first >= HOLD - 0.01
    assert lines(crawl.items()) == lines([{"page": "0"}, {"page": "1"}])
    assert job(crawl)["resting"] == {}


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
def test_a_delay_holds_over_a_stop_and_a_kill(
    crawl: Crawl, redis: RedisServer, killed: bool
) -> None:
    delay = 4.0
    crawl.settings |= {"DOWNLOAD_DELAY": delay, "RANDOMIZE_DOWNLOAD_DELAY": False}
    crawl.site.pages = {"/0": links("/1"), "/1": "a page"}
    one = crawl.start(Plain)
    one.until(lambda: states(redis))
    if killed:
        one.kill()
        redis.end_leases("crawl")
    else:
        one.interrupt()
    crawl.finish(Plain)
    (first,), (second,) = crawl.site.times("/0"), crawl.site.times("/1")
    assert second - first >= delay - 0.01
