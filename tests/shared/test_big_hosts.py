"""A host that has parts: several workers crawl it, together as one would."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from spiders.workers import OneHost
from support.crawl import Crawl, Process
from support.site import Answer, Pages, Visit, graph

pytestmark = pytest.mark.slow

HOST = "127.0.0.1"
SIZE = 40
DELAY = 0.15
SLACK = 6
"""Requests that may come early: the first of each worker, and those of one that has the
host by itself until the other one joins.
"""
MANY = 8
FOREVER = 600
WORKERS = 2


@pytest.fixture
def pages() -> Pages:
    return graph(SIZE)


def started(crawl: Crawl, **settings: Any) -> list[Process]:
    """Start workers, and wait until each has half of the host."""
    parts = {"BLOOMDUPE_REDIS_SLOT_PARTS": {HOST: 8}, "BLOOMDUPE_STAY": True}
    crawl.settings |= {**parts, **settings}
    starts, crawl.starts = crawl.starts, ()
    engine: Any = crawl.engine
    crew = [crawl.start(OneHost) for _ in range(WORKERS)]
    for worker in crew:
        worker.until_logged("Slot '127.0.0.1' has 8 parts")
    crew[0].until(lambda: sorted(engine.owners.values()) == [4, 4])
    urls = [f"{crawl.site.base}{path}" for path in starts]
    crawl.bloomdupe("add", engine.job, *urls, "--spider", OneHost.name)
    return crew


@pytest.mark.parametrize("throttled", [False, True])
def test_a_host_has_its_delay_over_all_workers(crawl: Crawl, throttled: bool) -> None:
    _, asked = crawl.stock(OneHost)
    before = len(crawl.site.log)
    crew = started(
        crawl,
        DOWNLOAD_DELAY=DELAY,
        RANDOMIZE_DOWNLOAD_DELAY=False,
        AUTOTHROTTLE_ENABLED=throttled,
        AUTOTHROTTLE_START_DELAY=DELAY,
        AUTOTHROTTLE_MAX_DELAY=DELAY,
    )
    crew[0].until(lambda: len(crawl.site.log) - before == asked.total())
    crawl.bloomdupe("stop", crawl.engine.job)
    runs = [worker.wait() for worker in crew]
    assert all(run.stats["downloader/response_count"] for run in runs)
    items = crawl.items()
    assert sorted(item["page"] for item in items) == [*range(SIZE)]
    assert Counter(visit.path for visit in crawl.site.log[before:]) == asked
    times = sorted(item["asked"] for item in items)
    assert times[-1] - times[0] >= (SIZE - SLACK) * DELAY


def test_a_host_has_its_concurrency_over_all_workers(crawl: Crawl) -> None:
    crawl.starts = tuple(f"/{number}" for number in range(SIZE))
    crawl.site.hold()
    crew = started(crawl, CONCURRENT_REQUESTS_PER_DOMAIN=MANY)
    crew[0].until(lambda: len(crawl.site.log) >= MANY)
    crawl.bloomdupe("stop", crawl.engine.job)
    for worker in crew:
        worker.until_logged("Closing spider")
    crawl.site.release()
    runs = [worker.wait() for worker in crew]
    assert all(run.stats["downloader/response_count"] for run in runs)
    assert len(crawl.site.log) == MANY


def test_a_retry_after_holds_for_all_workers(crawl: Crawl) -> None:
    """One request is answered so, and both workers leave the host alone."""

    def page(visit: Visit) -> Answer | str:
        first = visit == crawl.site.log[0]
        headers = {"Retry-After": str(FOREVER)}
        return Answer("", 503, headers) if first else "a page"

    crawl.site.pages = page
    crew = started(crawl, BLOOMDUPE_MAX_RETRY_AFTER=FOREVER, RETRY_ENABLED=True)
    for worker in crew:
        worker.until_logged("rests, as its Retry-After asks")
    ((slot, rest),) = job(crawl)["resting"].items()
    assert (slot, rest["reason"]) == (HOST, "Retry-After")
    assert job(crawl)["delays"] == {}
    crawl.bloomdupe("stop", crawl.engine.job)
    for worker in crew:
        assert worker.wait().status == 0
    assert len(crawl.site.log) == 1


def job(crawl: Crawl) -> Any:
    return json.loads(crawl.bloomdupe("info", crawl.engine.job, "--json"))["job"]
