"""`spider.state` under a worker's name, which one worker has at a time."""

from __future__ import annotations

import re
from typing import Any

import pytest
from spiders.named_workers import Counts, Unstorable
from support.crawl import Crawl
from support.redis_server import RedisServer

from bloomdupe.crawl.requests.values import unpack

pytestmark = pytest.mark.slow

ONE: dict[str, Any] = {"BLOOMDUPE_REDIS_WORKER": "one"}
STATES = "bloomdupe:{crawl}:states"


def kept(redis: RedisServer, name: str) -> list[str]:
    """Return the pages in the state that Redis has for a worker of this name."""
    with redis.client() as client:
        data: Any = client.hget(STATES, name)
    pages: list[str] = unpack(data)[0].get("pages", []) if data else []
    return pages


def seen(log: str) -> list[int]:
    return [int(number) for number in re.findall(r"pages so far: (\d+)", log)]


def test_the_next_worker_of_the_name_goes_on_with_the_state(
    crawl: Crawl, redis: RedisServer
) -> None:
    crawl.settings |= {**ONE, "BLOOMDUPE_REDIS_LEASE": 600}
    crawl.site.hold_after(20)
    worker = crawl.start(Counts)
    worker.until(lambda: kept(redis, "one"))
    worker.kill()
    before = len(kept(redis, "one"))
    crawl.site.release()
    # It may be alive, until its lease has run out.
    refused = crawl.run(Counts, status=1).log
    assert re.search(r"is the name of another worker.*its lease ends in \d+ s", refused)
    redis.end_leases("crawl")
    (run,) = crawl.finish(Counts)
    counts = seen(run.log)
    # The state has the pages that were done when it was kept, 20 at most.
    assert len(counts) >= 120
    assert counts == [*range(before + 1, len(kept(redis, "one")) + 1)]


def test_two_workers_have_two_names_and_two_states(
    crawl: Crawl, redis: RedisServer
) -> None:
    crawl.site.hold_after(1)
    one = crawl.start(Counts, **ONE)
    one.until_logged("This is worker")
    refused = crawl.run(Counts, status=1, **ONE)
    assert "BLOOMDUPE_REDIS_WORKER = 'one' is the name of another worker" in refused.log
    two = crawl.start(Counts, BLOOMDUPE_REDIS_WORKER="two")
    two.until_logged("This is worker")
    crawl.site.release()
    first, second = one.finish(), two.finish()
    for name, run in (("one", first), ("two", second)):
        assert len(kept(redis, name)) == len(seen(run.log))
    # The name was given back, so it is free at once.
    crawl.finish(Counts, **ONE)


def test_without_a_name_the_state_ends_with_the_worker(
    crawl: Crawl, redis: RedisServer
) -> None:
    crawl.run(Counts, CLOSESPIDER_PAGECOUNT=3)
    with redis.client() as client:
        assert not client.exists(STATES)


def test_a_state_that_cannot_be_stored_is_named_once(crawl: Crawl) -> None:
    run = crawl.run(Unstorable, CLOSESPIDER_PAGECOUNT=9, **ONE)
    words = "spider.state cannot be stored on Redis, so it ends with this worker"
    assert run.log.count(words) == 1


@pytest.mark.parametrize("name", ["", "x" * 201, 7])
def test_a_name_is_a_text(crawl: Crawl, name: object) -> None:
    run = crawl.refused(Counts, BLOOMDUPE_REDIS_WORKER=name)
    assert "expected a text of 1 to 200 characters, or None" in run.log
