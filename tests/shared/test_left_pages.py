"""Pages of shared crawls with requests that cannot be stored, and pages that are left.

The spiders say in files how far they are, and wait for files: no test waits for time.
"""

from __future__ import annotations

import signal
from collections import Counter
from typing import Any

import pytest
from spiders.workers import Broken, Kept, KeptBefore, KeptByStart, Parked
from spiders.workers import Pages as PagesSpider
from support.crawl import Crawl, Process
from support.judge import lines
from support.redis_server import RedisServer
from support.site import Pages
from support.waiting import until

pytestmark = pytest.mark.slow


@pytest.fixture
def pages() -> Pages:
    paths = [f"/0?{n}" for n in range(100)] + ["/0", "/0?link"]
    return dict.fromkeys([*paths, *(f"/0?{n}bad" for n in range(6))], "page")


def done_in(crawl: Crawl) -> int:
    return crawl.durable_pages


def begin(crawl: Crawl, spider: type[PagesSpider]) -> list[Process]:
    """Start two workers; they go on when each has its share."""
    engine: Any = crawl.engine
    workers = [crawl.start(spider) for _ in range(2)]
    until(lambda: [*crawl.folder.glob("ready*")])
    until(lambda: [*engine.owners.values()] == [8, 8])
    (crawl.folder / "go").touch()
    return workers


def numbers(key: str, *values: object) -> Counter[str]:
    return lines({key: value} for value in values)


def test_a_slot_goes_on_while_requests_of_it_are_at_hand(crawl: Crawl) -> None:
    crawl.finish(Parked)
    assert lines(crawl.items()) == numbers("page", *range(100))


def test_pages_that_break_off_keep_no_worker(crawl: Crawl) -> None:
    for worker in begin(crawl, Broken):
        run = worker.wait()
        assert (run.status, run.finish_reason) == (1, "incomplete"), run.log
        assert "The crawl is incomplete" in run.log
    # Pages that have broken off come again as a whole, as with a JOBDIR.
    assert lines(crawl.items()) == numbers("page", *range(6, 20), *range(6, 20))
    (crawl.folder / "mended").touch()
    crawl.finish(Broken)
    # Each item once, though a page may have been tried by both.
    twice = numbers("page", *range(20), *range(20))
    more = numbers("bad", *(f"{n}bad" for n in range(6))) + numbers("after", *range(6))
    assert lines(crawl.items()) == twice + more


def test_a_link_in_memory_is_not_lost_with_two_leases(
    crawl: Crawl, redis: RedisServer
) -> None:
    """Each of two workers loses a page, and has the link of the other one's, too."""
    one, two = begin(crawl, Kept)
    until(lambda: len([*crawl.folder.glob("link*")]) == 2)
    # All pages but two rely on the two that carry the link.
    until(lambda: done_in(crawl) == 18)
    one.send(signal.SIGSTOP)
    redis.end_leases("crawl")
    until(lambda: done_in(crawl) == 19)
    asked = len(crawl.site.log)
    two.send(signal.SIGSTOP)
    redis.end_leases("crawl")
    one.send(signal.SIGCONT)
    crawl.site.until_requested(asked + 1)
    (crawl.folder / "answer").touch()
    two.send(signal.SIGCONT)
    for worker in (one, two):
        worker.finish()
    items = lines(crawl.items())
    (link,) = numbers("page", "link")
    assert items[link] in {1, 2}
    assert items.total() == 20 + items[link]


def test_a_link_in_memory_that_is_done_counts_as_seen(crawl: Crawl) -> None:
    (crawl.folder / "answer").touch()
    for page in (1, 2):
        crawl.finish(KeptBefore, PAGE=page)
    assert crawl.site.requested == ["/0?1", "/0?link", "/0?2"]
    assert len(crawl.items()) == 3


def test_a_link_of_a_start_request_in_memory_is_not_lost(crawl: Crawl) -> None:
    assert crawl.run(KeptByStart, CLOSES=True).finish_reason == "cancelled"
    crawl.finish(KeptByStart)
    assert lines(crawl.items()).keys() == numbers("page", 1, 2, 3).keys()


def test_a_refusal_that_passes_is_waited_for(crawl: Crawl, redis: RedisServer) -> None:
    crawl.site.hold_after(6)
    worker = crawl.start(Parked)
    worker.until_requested(7)
    with redis.client() as client:
        client.config_set("min-replicas-to-write", 1)
        worker.until_logged("NOREPLICAS")
        client.config_set("min-replicas-to-write", 0)
    crawl.site.release()
    assert worker.finish().log.count("NOREPLICAS") == 1
    assert len(crawl.items()) == 100
