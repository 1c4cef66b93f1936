"""Retries that wait, and slots that back off; the judge is the server's log."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest
from spiders.retries import Asks, Many
from support.crawl import Crawl
from support.repetition import by_default
from support.site import Answer, Site, Visit

from bloomdupe.crawl.retries import GrowingWait

pytestmark = pytest.mark.slow

SETTINGS = {"PAGES": 300, "RETRY_ENABLED": True}


def backoff(first: float, factor: float, longest: float) -> dict[str, Any]:
    return {"BLOOMDUPE_RETRY_BACKOFF": [first, factor, longest]}


BOTH = pytest.mark.usefixtures("engine")


def away(_: Visit) -> None:
    """Close the connection without an answer."""


@BOTH
def test_while_a_server_is_away_nothing_is_given_up(crawl: Crawl, site: Site) -> None:
    concurrency, probes = 8, 5
    begun = math.inf
    served: list[str] = []
    failed: list[str] = []

    def away_for_a_while(visit: Visit) -> Answer | None:
        """Give no answer for a second, and none at first."""
        now = time.monotonic()
        is_away = begun <= now and (now < begun + 1 or not failed)
        (failed if is_away else served).append(visit.path)
        # Twisted repeats a request by itself, if it was the second on its connection.
        return None if is_away else Answer("x", headers={"Connection": "close"})

    site.pages = away_for_a_while
    site.hold_after(50)
    process = crawl.start(Many, **backoff(0.1, 2, 30))
    process.until_requested(50 + concurrency)  # so the crawl has heard of all 50
    begun = time.monotonic()
    site.release()
    run = process.wait()
    assert (run.status, run.finish_reason) == (0, "finished"), run.log
    assert "retry/max_reached" not in run.stats
    assert sorted(served) == sorted(f"/{number}" for number in range(300))
    # Each request in flight, at most one more in the place of each, and then probes,
    # after backoffs of 0.05 s, 0.1 s ... at least: the fifth probe comes too late to
    # fail.
    assert 0 < len(failed) <= 2 * concurrency + probes


@BOTH
def test_while_it_is_away_no_request_loses_its_tries(crawl: Crawl, site: Site) -> None:
    """Not even if there are so few that each of them probes several times."""
    site.pages = lambda _: Answer("x", 503 if len(site.log) <= 8 else 200)
    few: dict[str, Any] = {"PAGES": 2, "CONCURRENT_REQUESTS": 1}
    stats = crawl.run(Many, **few, **backoff(0.1, 1.5, 60)).stats
    assert "retry/max_reached" not in stats
    assert stats["item_scraped_count"] == 2
    assert stats["bloomdupe/retries_not_counted"] == 7


@BOTH
def test_a_wait_that_a_header_asks_for_is_logged_once(crawl: Crawl, site: Site) -> None:
    busy = Answer("x", 503, {"Retry-After": "1"})
    site.pages = lambda _: busy if len(site.log) <= 3 else Answer("x")
    run = crawl.run(Many, PAGES=1, **backoff(0.01, 1, 0.01))
    assert run.stats["bloomdupe/slot_backoffs"] == 2
    assert run.log.count("as its Retry-After asks") == 3


@by_default
@BOTH
def test_a_retry_out_of_a_callback_waits_and_its_child_does_not(
    crawl: Crawl, site: Site
) -> None:
    site.pages = {"/": ["not yet", "x"], "/child": "x"}
    an_hour: dict[str, Any] = {"BLOOMDUPE_WAIT": 0, **backoff(3_600, 1, 3_600)}
    first = crawl.run(Asks, **an_hour)
    assert (first.requested, first.finish_reason) == (["/"], "waiting")
    second = crawl.run(Asks, before=crawl.engine.pass_time(3_600), **an_hour)
    assert (second.requested, second.finish_reason) == (["/", "/child"], "finished")


@BOTH
def test_a_crawl_of_a_dead_host_ends(crawl: Crawl, site: Site) -> None:
    site.pages = away
    run = crawl.run(Many, PAGES=20, **backoff(0.1, 1, 0.1))
    assert run.stats["lost"] == 20
    assert "is marked down after 3 backoffs" in run.log


def test_waits_grow_by_the_factor_up_to_the_limit() -> None:
    for draw, share in ((lambda: 0.0, 0.5), (lambda: 1.0, 1.0)):
        growing = GrowingWait(2, 3, 60, draw)
        for failures, longest in (
            (1, 2),
            (2, 6),
            (3, 18),
            (4, 54),
            (5, 60),
            (9**9, 60),
        ):
            assert growing.seconds(failures) == pytest.approx(share * longest)
    assert GrowingWait(5, 1, 5).longest(10**6) == 5
