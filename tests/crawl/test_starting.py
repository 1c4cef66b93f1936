"""Start requests that are other ones in each run are known by their places."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest
from support.page_server import page_server
from support.small_site import JOB, Site

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
