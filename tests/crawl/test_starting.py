"""Start requests that are other ones in each run are known by their places."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest
from support.page_server import page_server
from support.small_site import JOB, Site

from bloomdupe import BloomFilter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

SPIDERS = """
import asyncio, os, signal, uuid
import bloomdupe.signals
import scrapy
from scrapy import Request


class Base(scrapy.Spider):
    def parse(self, response, n=0, at=None):
        yield {"page": response.url[-1], "n": n}

    def request(self, name, **kwargs):
        url = self.start_urls[0] + name
        return Request(url, dont_filter=True, cb_kwargs=kwargs)

    async def kill(self):
        # When what was taken in so far is durable.
        written = asyncio.Event()
        self.crawler.signals.connect(written.set, bloomdupe.signals.checkpoint)
        self.state["killed"] = True  # or there might be none any more
        await written.wait()
        os.kill(os.getpid(), signal.SIGKILL)


class Stamped(Base):
    # Two for one page, and one for another.
    name = "stamped"

    async def start(self):
        for name in "aab":
            yield self.request(name, at=str(uuid.uuid4()))
        if self.settings.getbool("MORE"):
            yield self.request("a")
            yield self.request("c", at=str(uuid.uuid4()))


class PlainOrNot(Base):
    name = "plain"

    async def start(self):
        if self.settings.getbool("PLAIN"):
            yield self.request("a")
        else:
            yield self.request("a", at=str(uuid.uuid4()))


class Ended(Stamped):
    name = "ended"

    async def parse(self, response, at):
        if self.settings.getbool("KILL"):
            await self.kill()
        yield {"page": response.url[-1], "n": 0}


class InTurn(Base):
    # The first run is killed between the two; the second run has another order.
    name = "in_turn"

    async def start(self):
        if not self.settings.getbool("KILL"):
            yield self.request("a", n=2)
        yield self.request("a", n=1)
        if self.settings.getbool("KILL"):
            await self.kill()


class Again(Base):
    name = "again"
    start = scrapy.Spider.start

    def parse(self, response):
        yield Request(response.url, self.second)
        yield Request(response.url, self.second)

    def second(self, response):
        pass


class Polls(Base):
    name = "polls"

    async def start(self):
        while True:
            yield self.request("a")
            await asyncio.sleep(0.01)
"""
PAGES = {"/a": "", "/b": "", "/c": ""}
OFTEN = "BLOOMDUPE_CHECKPOINT_INTERVAL=0.05"
FEED = 'FEEDS={"items.jsonl": {"format": "jsonlines"}}'


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "spiders.py").write_text(SPIDERS)
    with page_server(PAGES) as (base, requested):
        yield Site(tmp_path, base, requested)


def kill(site: Site, spider: str) -> None:
    process = site.start(spider, JOB, FEED, OFTEN, "KILL=1")
    _, log = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, log


def items(site: Site) -> list[tuple[str, int]]:
    lines = (site.folder / "items.jsonl").read_text().splitlines()
    return sorted((item["page"], item["n"]) for item in map(json.loads, lines))


def test_a_finished_job_knows_them(site: Site) -> None:
    site.crawl("Stamped", JOB)
    assert sorted(site.take()) == ["/a", "/a", "/b"]
    assert site.crawl("Stamped", JOB)["bloomdupe/start_requests_skipped"] == 3
    assert site.take() == []


def test_more_for_the_same_page_are_new_work(site: Site) -> None:
    site.crawl("Stamped", JOB)
    site.take()
    site.crawl("Stamped", JOB, "MORE=1")
    assert sorted(site.take()) == ["/a", "/c"]
    site.crawl("Stamped", JOB, "MORE=1")
    assert site.take() == []


@pytest.mark.parametrize("first", [0, 1])
def test_the_same_page_with_and_without_more_to_it(site: Site, first: int) -> None:
    site.crawl("PlainOrNot", JOB, f"PLAIN={first}")
    assert site.take() == ["/a"]
    site.crawl("PlainOrNot", JOB, f"PLAIN={1 - first}")
    assert site.take() == []


def test_a_killed_job_knows_them_once_start_has_yielded_all(site: Site) -> None:
    kill(site, "Ended")
    stats = site.crawl("Ended", JOB, FEED)
    assert stats["bloomdupe/start_requests_skipped"] == 3
    assert items(site) == [("a", 0), ("a", 0), ("b", 0)]


def test_until_then_they_may_come_in_another_order(site: Site) -> None:
    """A place says nothing yet: the one that comes first now is not lost."""
    kill(site, "InTurn")
    site.crawl("InTurn", JOB, FEED)
    assert items(site) == [("a", 1), ("a", 2)]


def test_a_new_round_asks_for_all_of_them(site: Site) -> None:
    site.crawl("Stamped", JOB)
    site.take()
    site.crawl("Stamped", JOB, "BLOOMDUPE_START_REQUESTS=again")
    assert sorted(site.take()) == ["/a", "/a", "/b"]
    site.crawl("Stamped", JOB)
    assert site.take() == []


# Marks of pages that must not be lost

FULL = ("BLOOMDUPE_EXPECTED_URLS=1", "BLOOMDUPE_FPP=0.5", "BLOOMDUPE_GROWTH=warn")
EXACT = r"BLOOMDUPE_EXACT_URLS=127\.0\.0\.1"


@pytest.mark.parametrize("exact", [False, True])
def test_of_exact_urls_no_start_request_is_lost(site: Site, exact: bool) -> None:
    """Even if the filter takes everything for seen; without them, it is."""
    settings = [JOB, *FULL, *([EXACT] if exact else [])]
    site.crawl("Stamped", *settings)
    site.take()
    with BloomFilter.open(site.folder / "job/bloomdupe", growth="warn") as seen:
        seen.update(str(number) for number in range(1_000_000))
    site.crawl("Stamped", *settings, "MORE=1")
    assert sorted(site.take()) == (["/a", "/c"] if exact else [])
    site.crawl("Stamped", *settings, "MORE=1")
    assert site.take() == []


def test_of_an_exact_url_no_second_use_is_lost(site: Site) -> None:
    """Even if the filter takes everything for seen."""
    settings = [JOB, *FULL, EXACT]
    site.crawl("Again", *settings, starts=("/a",))
    with BloomFilter.open(site.folder / "job/bloomdupe", growth="warn") as seen:
        seen.update(str(number) for number in range(1_000_000))
    site.take()
    site.crawl("Again", *settings, starts=("/b",))
    assert site.take() == ["/b", "/b"]


def test_marks_of_an_earlier_version_are_not_exact(site: Site) -> None:
    """It has kept the fingerprints alone exactly."""
    before = "from bloomdupe.crawl.progress.rounds import Run\n"
    before += "Run.marks_exactly = property(lambda _: False, lambda _, value: None)\n"
    site.crawl("Stamped", JOB, EXACT, before=before)
    assert sorted(site.take()) == ["/a", "/a", "/b"]
    site.crawl("Stamped", JOB, EXACT)
    assert site.take() == []


def test_a_poller_is_told_why_nothing_is_polled(site: Site) -> None:
    words = "again and again, and an earlier run has scheduled it"
    setting = "BLOOMDUPE_START_REQUESTS = 'always'"
    pages = "CLOSESPIDER_PAGECOUNT={}".format
    assert words not in site.crawl("Polls", JOB, pages(3))["log"]
    second = site.crawl("Polls", JOB, pages(1))
    assert second["log"].count(words) == second["log"].count(setting) == 1
    assert second["bloomdupe/start_requests_skipped"] >= 3
    third = site.crawl("Polls", JOB, pages(1), "BLOOMDUPE_START_REQUESTS=always")
    assert words not in third["log"]
    assert "bloomdupe/start_requests_skipped" not in third


def test_one_that_has_ended_is_no_poller(site: Site) -> None:
    site.crawl("Stamped", JOB, "MORE=1")
    assert "again and again" not in site.crawl("Stamped", JOB, "MORE=1")["log"]
