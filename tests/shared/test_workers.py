"""Several workers on one crawl: real processes, a real Redis, beside stock Scrapy."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from scrapy import Spider
from spiders.workers import All, Alone, Broken, Closing, Other, Parked
from support.crawl import Crawl
from support.judge import lines
from support.site import Pages, graph
from support.waiting import until

pytestmark = pytest.mark.slow

SIZE = 150


@pytest.fixture
def pages() -> Pages:
    return graph(SIZE)


def test_requests_of_an_interrupted_worker_continue_at_once(crawl: Crawl) -> None:
    """After Ctrl-C or CloseSpider, the other workers need not wait for the lease."""
    expected, _ = crawl.stock(All)
    crawl.settings["BLOOMDUPE_REDIS_LEASE"] = 600
    assert crawl.run(Closing, CLOSE=True).finish_reason == "enough"
    crawl.interrupted(Closing, after=1)
    crawl.finish(Closing)
    assert lines(crawl.items()) == expected


REFUSED: list[tuple[type[Spider], str, str]] = [
    (All, "JOBDIR=job", "JOBDIR and BLOOMDUPE_REDIS_URL are both set"),
    (All, "BLOOMDUPE_EXACT=1", "BLOOMDUPE_EXACT: .* was made with exact = "),
    (All, "BLOOMDUPE_FPP=0.01", "BLOOMDUPE_FPP: .* was made with fpp = 1e-06"),
    (All, "BLOOMDUPE_EXPECTED_URLS=9", "EXPECTED_URLS: .* = 10000, but"),
    (Other, "LOG_ENABLED=1", "was made with spider = 'all'"),
    (All, "BLOOMDUPE_REDIS_URL=redis://localhost:1/0#a", "no Redis answers there"),
    (All, "BLOOMDUPE_REDIS_URL=redis://localhost:1", "must end in the name of the"),
    (All, 'FEEDS={"a.csv": {"format": "csv"}}', r"but feeds = \['a.csv'\] is asked"),
]


def test_an_impossible_crawl_is_refused(crawl: Crawl) -> None:
    crawl.finish(All)
    items = crawl.items()
    for spider, setting, words in REFUSED:
        name, _, value = setting.partition("=")
        run = crawl.refused(spider, **{name: value})
        assert re.search(words, run.log), run.log
    assert crawl.items() == items


def test_a_worker_waits_for_requests_that_redis_does_not_know(crawl: Crawl) -> None:
    crawl.finish(Alone)
    assert lines(crawl.items()) == lines({"page": n} for n in range(6))


class TestPagesOfTwoWorkers:
    """The spiders wait for files."""

    @pytest.fixture
    def pages(self) -> Pages:
        paths = ["/0", *(f"/0?{n}" for n in range(100))]
        return dict.fromkeys([*paths, *(f"/0?{n}bad" for n in range(6))], "page")

    def numbers(self, key: str, *values: object) -> Counter[str]:
        return lines({key: value} for value in values)

    def test_a_slot_goes_on_while_requests_of_it_are_at_hand(
        self, crawl: Crawl
    ) -> None:
        crawl.finish(Parked)
        assert lines(crawl.items()) == self.numbers("page", *range(100))

    def test_pages_that_break_off_keep_no_worker(self, crawl: Crawl) -> None:
        engine: Any = crawl.engine
        workers = [crawl.start(Broken) for _ in range(2)]
        until(lambda: [*engine.owners.values()] == [8, 8])
        (crawl.folder / "go").touch()
        for worker in workers:
            run = worker.wait()
            assert (run.status, run.finish_reason) == (1, "incomplete"), run.log
            assert "Requests that are not done" in run.log
        # Pages that have broken off come again as a whole, as with a JOBDIR.
        good = self.numbers("page", *range(6, 20), *range(6, 20))
        assert lines(crawl.items()) == good
        (crawl.folder / "mended").touch()
        crawl.finish(Broken)
        # Each item once, though a page may have been tried by both.
        bad = self.numbers("bad", *(f"{n}bad" for n in range(6)))
        mended = self.numbers("page", *range(6), *range(6))
        after = self.numbers("after", *range(6))
        assert lines(crawl.items()) == good + mended + bad + after
