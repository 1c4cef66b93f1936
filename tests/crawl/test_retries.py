"""Retries that wait, and slots that rest; the judge is the server's log."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.settings import Settings
from spiders.retries import Asks, Many, few_circuits
from support.site import Answer

from bloomdupe import BloomFilter
from bloomdupe.crawl.later.growing_wait import GrowingWait
from bloomdupe.errors import SettingError
from bloomdupe.settings import JobSettings

if TYPE_CHECKING:
    from support.crawl import Crawl
    from support.site import Site, Visit

pytestmark = pytest.mark.slow


class Moody:
    """Pages of a server that can be away."""

    def __init__(self) -> None:
        self.log: list[tuple[float, str, int]] = []
        """Unix time, path and status of each request; 0: no answer."""
        self.away_after = math.inf
        """Requests after which it goes away for ``away`` seconds."""
        self.away = 0.0
        self.back: float | None = None
        self.status = 0
        """What it answers when it is away; 0: nothing."""
        self._lock = threading.Lock()

    def __call__(self, visit: Visit) -> Answer | None:
        with self._lock:
            status = self._status()
            self.log.append((time.time(), visit.path, status))
        return Answer("x", status) if status else None

    def _status(self) -> int:
        now = time.time()
        if self.back is None and len(self.log) >= self.away_after:
            self.back = now + self.away
        return self.status if self.back is not None and now < self.back else 200

    def failed(self) -> list[float]:
        return [when for when, _, status in self.log if status in (0, 503)]


@pytest.fixture
def pages() -> Moody:
    return Moody()


@pytest.fixture
def crawl(crawl: Crawl) -> Crawl:
    crawl.settings |= {"PAGES": 300, "RETRY_ENABLED": True}
    return crawl


def backoff(first: float, factor: float, longest: float) -> dict[str, Any]:
    return {"BLOOMDUPE_RETRY_BACKOFF": [first, factor, longest]}


IN_MEMORY: dict[str, Any] = {"JOBDIR": None}


def test_while_a_server_is_away_nothing_is_given_up(crawl: Crawl, pages: Moody) -> None:
    pages.away_after, pages.away = 50, 3.0
    run = crawl.run(Many, **backoff(0.2, 2, 30))
    assert run.finish_reason == "finished"
    assert "retry/max_reached" not in run.stats
    served = Counter(path for _, path, status in pages.log if status == 200)
    assert served == Counter(f"/{number}" for number in range(300))
    # What was under way when it went, and what took the places of that before the crawl
    # had heard of two failures; then probes, after rests of 0.1 s, 0.2 s ... at least.
    concurrency, probes = 8, 5
    assert len(pages.failed()) <= 2 * concurrency + probes


def test_while_it_is_away_no_request_loses_its_tries(
    crawl: Crawl, pages: Moody
) -> None:
    """Not even if there are so few that each of them probes several times."""
    pages.away_after, pages.away, pages.status = 0, 4.0, 503
    stats = crawl.run(Many, PAGES=2, **IN_MEMORY, **backoff(0.2, 1.5, 2)).stats
    assert "retry/max_reached" not in stats
    assert stats["item_scraped_count"] == 2
    assert stats["bloomdupe/retries_not_counted"] >= 3


def test_stock_scrapy_gives_them_up(crawl: Crawl, pages: Moody) -> None:
    """What the test above guards against."""
    pages.away_after, pages.away = 50, math.inf
    crawl.settings["PAGES"] = 60
    stats = crawl.run(Many, ADDONS={}, **IN_MEMORY).stats
    assert stats["retry/max_reached"] > 0
    assert stats["lost"] == stats["retry/max_reached"]


def test_a_retry_waits_longer_each_time(crawl: Crawl, site: Site) -> None:
    failure = Answer("", 500)
    site.pages = {"/0": [failure, failure, "x"]}
    run = crawl.run(Many, PAGES=1, **IN_MEMORY, **backoff(1, 1.5, 9))
    first, second, third = site.times("/0")
    assert second - first >= 0.5
    assert third - second >= 0.75
    assert run.stats["item_scraped_count"] == 1


def test_a_retry_out_of_a_callback_waits_and_its_child_does_not(
    crawl: Crawl, site: Site
) -> None:
    site.pages = {"/": ["not yet", "x"], "/child": "x"}
    # Of the longest wait, at least a half.
    run = crawl.run(Asks, **backoff(8, 1, 8))
    first, second = site.times("/")
    assert second - first >= 4
    assert site.times("/child")[0] - second < 4
    assert run.stats["item_scraped_count"] == 1


def test_a_page_that_is_broken_is_given_up_after_its_tries(
    crawl: Crawl, site: Site
) -> None:
    site.pages = {f"/{n}": Answer("x", 500 if n == 3 else 200) for n in range(9)}
    stats = crawl.run(Many, PAGES=9, **IN_MEMORY, **backoff(0.1, 1, 0.1)).stats
    assert len(site.times("/3")) == 3
    assert stats["retry/max_reached"] == stats["lost"] == 1
    assert stats["item_scraped_count"] == 8


def test_a_crawl_of_a_dead_host_ends(crawl: Crawl, pages: Moody) -> None:
    pages.away_after, pages.away = 0, math.inf
    run = crawl.run(Many, PAGES=20, **IN_MEMORY, **backoff(0.1, 1, 0.1))
    assert run.stats["lost"] == 20
    assert "is taken for dead after 3 rests" in run.log


def test_a_slot_rests_over_a_restart(crawl: Crawl, pages: Moody) -> None:
    pages.away_after, pages.away = 0, math.inf
    crawl.settings |= {"PAGES": 20, **backoff(8, 1, 8)}
    process = crawl.start(Many)
    # The rest begins when the crawl has heard of the failures.
    process.until_logged("rests")
    process.until(lambda: rests(crawl))
    process.kill()
    before = len(pages.log)
    pages.away = 0.0
    pages.back = time.time()
    run = crawl.run(Many)
    failed = pages.log[before - 1][0]
    assert pages.log[before][0] - failed >= 3.9
    assert run.finish_reason == "finished"
    assert run.stats["bloomdupe/total_items"] == 20


def rests(crawl: Crawl) -> dict[str, Any]:
    """Return the slots that rest, as they are stored."""
    with BloomFilter.open(crawl.store, readonly=True) as seen:
        found: dict[str, Any] = (seen.record("crawl") or {}).get("circuits", {})
    return found


@pytest.mark.parametrize(("known", "kept", "most"), [(10, 1_000, 10), (1_000, 7, 7)])
def test_what_is_known_of_slots_is_bounded(
    crawl: Crawl, pages: Moody, known: int, kept: int, most: int
) -> None:
    pages.away_after, pages.away, pages.status = 0, math.inf, 503
    crawl.settings |= {"PAGES": 40, "SLOTS": True, "RETRY_TIMES": 1}
    crawl.settings |= backoff(60, 1, 60)
    process = crawl.start(Many, before=partial(few_circuits, known, kept))
    process.until(lambda: process.log.count("in a row and rests") > most)
    process.interrupt()
    assert 0 < len(rests(crawl)) <= most


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


@pytest.mark.parametrize(
    "value",
    ["1,2", (1, 2), (0, 2, 3), (1, 0.5, 3), (2, 2, 1), "a,b,c", 5, (1, 2, math.inf)],
)
def test_a_backoff_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(SettingError, match=r"BLOOMDUPE_RETRY_BACKOFF.*three numbers"):
        JobSettings.read(Settings({"BLOOMDUPE_RETRY_BACKOFF": value}))
