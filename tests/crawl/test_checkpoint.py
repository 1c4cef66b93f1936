"""What else is in a checkpoint: state, totals, delays; and who is asked before it."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.page_server import page_server
from support.small_site import JOB, Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

PAGES = {
    "/": "".join(f"<a href='/{name}'>x</a>" for name in "abcdefghij"),
    **{f"/{name}": f"<a href='/{name}1'>x</a>" for name in "abcdefghij"},
    **{f"/{name}1": "" for name in "abcdefghij"},
    "/image": "no image",
}

SPIDERS = """
import asyncio
import datetime
import os
import sqlite3
import scrapy
from twisted.internet.task import LoopingCall
from bloomdupe.signals import checkpoint


class Count(scrapy.Spider):
    name = "count"
    custom_settings = {"BLOOMDUPE_CHECKPOINT_INTERVAL": 0.02, "DOWNLOAD_DELAY": 0.01}

    def parse(self, response):
        path = response.url.rpartition("/")[2]
        self.state.setdefault("seen", {"of": set(), "when": datetime.date(2026, 1, 2)})
        self.state["seen"]["of"].add(path)
        yield {"path": path}
        self.die(len(self.state["seen"]["of"]))
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)

    def die(self, count):
        if 0 < self.settings.getint("DIE_AT") <= count:
            os.kill(os.getpid(), 9)


class Told(Count):
    # Dies when it is stored that the server wants to be left alone.
    name = "told"
    told = False

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        if crawler.settings.getbool("DIE_TOLD"):
            crawler.signals.connect(spider.look, scrapy.signals.response_downloaded)
            crawler.signals.connect(spider.wait, checkpoint)
        return spider

    def look(self, response):
        self.told = self.told or response.status == 503

    def wait(self):
        if self.told:
            LoopingCall(self.die_after, self.committed()).start(0.005)

    def committed(self):
        return self.crawler.stats.get_value("bloomdupe/checkpoints")

    def die_after(self, count):
        if self.committed() != count:
            os.kill(os.getpid(), 9)


class Unstorable(Count):
    name = "unstorable"

    def parse(self, response):
        self.state["spider"] = response.url, object
        yield from super().parse(response)


class NoConnection:
    # A pipeline, on a bad day.
    def open_spider(self, *_):
        raise OSError("no connection")


class Waiting(Count):
    # Other requests and coroutines within a callback.
    name = "waiting"

    async def parse(self, response):
        await asyncio.sleep(0.005)
        request = scrapy.Request(response.urljoin("/image"), dont_filter=True)
        download = getattr(self.crawler.engine, "download_async", None)
        if download is None:  # before Scrapy 2.14
            from scrapy.utils.defer import maybe_deferred_to_future as future
            other = await future(self.crawler.engine.download(request))
        else:
            other = await download(request)
        assert other.status == 200
        for output in super().parse(response):
            yield output
            await asyncio.sleep(0.001)


class Media(Count):
    name = "media"

    def parse(self, response):
        for output in super().parse(response):
            if isinstance(output, dict):
                output["file_urls"] = [response.urljoin("/image")]
            yield output


class Stored:
    # Buffers, and writes before each checkpoint.
    def __init__(self, crawler):
        self.rows = []
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler):
        pipeline = cls(crawler)
        crawler.signals.connect(pipeline.flush, checkpoint)
        return pipeline

    def process_item(self, item, spider=None):
        self.rows.append((item["path"],))
        return item

    def flush(self, spider):
        assert spider is self.crawler.spider
        with sqlite3.connect("items.db") as db:
            db.execute("CREATE TABLE IF NOT EXISTS items (path)")
            db.executemany("INSERT INTO items VALUES (?)", self.rows)
        db.close()
        self.rows.clear()


class Failing(Stored):
    def flush(self):
        if self.rows and self.crawler.settings.getbool("FAIL"):
            raise OSError("the database is gone")


class Asynchronous(Stored):
    async def flush(self):
        pass
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "spiders.py").write_text(SPIDERS)
    with page_server(PAGES) as (base, requested):
        yield Site(folder, base, requested)


PATHS = sorted(path[1:] for path in PAGES if path != "/image")
FEED = 'FEEDS={"items.jsonl": {"format": "jsonlines"}}'
SHOW = """
import atexit, scrapy.crawler as c
create = c.CrawlerProcess.create_crawler
def remember(*args):
    crawler = create(*args)
    atexit.register(lambda: open("state", "w").write(repr(crawler.spider.state)))
    return crawler
c.CrawlerProcess.create_crawler = remember
"""


def die(site: Site, spider: str, count: int, *settings: str) -> str:
    """Run a crawl until it kills itself; return its log."""
    process = site.start(spider, *settings, f"DIE_AT={count}")
    _, log = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, log
    return log


def items(site: Site) -> list[str]:
    lines = (site.folder / "items.jsonl").read_text().splitlines()
    return sorted(json.loads(line)["path"] for line in lines)


def finish(site: Site, spider: str, *settings: str) -> tuple[Any, str]:
    process = site.start(spider, *settings, before=SHOW)
    _, log = process.communicate(timeout=60)
    assert process.returncode == 0, log
    text = (site.folder / "state").read_text()
    return eval(text, {"datetime": __import__("datetime")}), log  # noqa: S307


def test_state_goes_on_from_the_last_checkpoint(site: Site) -> None:
    for count in (7, 14):
        die(site, "Count", count, JOB)
    state, _ = finish(site, "Count", JOB)
    assert sorted(state["seen"]["of"]) == PATHS
    assert str(state["seen"]["when"]) == "2026-01-02"


def test_state_that_cannot_be_stored_is_said_to_be_so_once(site: Site) -> None:
    stats = site.crawl("Unstorable", JOB)
    assert stats["log"].count("spider.state cannot be stored") == 1
    assert stats["finish_reason"] == "finished"


@pytest.mark.parametrize("spider", ["Count", "Unstorable"])
def test_a_pipeline_that_fails_to_open_leaves_the_state_alone(
    site: Site, spider: str
) -> None:
    """Scrapy would empty JOBDIR/spider.state, and fail to read it in the next run."""
    state = site.folder / "job" / "spider.state"
    for first in (True, False):
        before = None if first else state.read_bytes()
        process = site.start(spider, JOB, 'ITEM_PIPELINES={"spiders.NoConnection": 1}')
        _, log = process.communicate(timeout=60)
        assert "no connection" in log
        assert (state.read_bytes() if state.exists() else None) == before
        log = site.crawl(spider, JOB, *["CLOSESPIDER_PAGECOUNT=3"] * first)["log"]
        assert "EOFError" not in log
        assert state.read_bytes()


def test_state_that_scrapy_has_stored_is_taken_over(site: Site) -> None:
    site.crawl("Count", JOB, "ADDONS={}", "CLOSESPIDER_PAGECOUNT=3")
    site.crawl("Count", "JOBDIR=other", "CLOSESPIDER_PAGECOUNT=3")
    (site.folder / "job" / "spider.state").rename(
        site.folder / "other" / "spider.state"
    )
    # Of the two, the one in the store is newer.
    state, _ = finish(site, "Count", "JOBDIR=other")
    assert sorted(state["seen"]["of"]) == PATHS


def test_totals_count_every_page_once(site: Site) -> None:
    for count in (7, 14):
        die(site, "Count", count, JOB)
    stats = site.crawl("Count", JOB)
    pages = [PAGES["/" + path] for path in PATHS]
    assert stats["bloomdupe/runs"] == 3
    assert stats["bloomdupe/total_pages"] == len(pages)
    assert stats["bloomdupe/total_items"] == len(pages)
    assert stats["bloomdupe/total_bytes"] == sum(map(len, pages))
    assert stats["bloomdupe/total_seconds"] > stats["elapsed_time_seconds"] / 2
    assert stats["item_scraped_count"] < len(pages)


@pytest.mark.parametrize("spider", ["Waiting", "Media"])
def test_requests_within_requests_disturb_nothing(site: Site, spider: str) -> None:
    settings = [JOB, FEED, "FILES_STORE=files"]
    settings.append('ITEM_PIPELINES={"scrapy.pipelines.files.FilesPipeline": 1}')
    for count in (7, 14):
        die(site, spider, count, *settings)
    stats = site.crawl(spider, *settings)
    assert items(site) == PATHS
    assert "Traceback" not in stats["log"]
    assert stats["bloomdupe/unfinished"] == 0
    assert set(site.take()) == set(PAGES)
    assert stats["bloomdupe/total_pages"] == len(PATHS)


def test_a_pipeline_that_listens_misses_nothing(site: Site) -> None:
    settings = [JOB, 'ITEM_PIPELINES={"spiders.Stored": 1}']
    for count in (7, 14):
        die(site, "Count", count, *settings)
    site.crawl("Count", *settings)
    with sqlite3.connect(site.folder / "items.db") as database:
        rows = database.execute("SELECT path FROM items").fetchall()
    database.close()
    assert sorted({path for (path,) in rows}) == PATHS


def test_if_a_listener_fails_nothing_is_committed_and_the_crawl_stops(
    site: Site,
) -> None:
    settings = [JOB, FEED, 'ITEM_PIPELINES={"spiders.Failing": 1}']
    stats = site.crawl("Count", *settings, "FAIL=1")
    assert stats["finish_reason"] != "finished"
    assert "spiders.Failing.flush" in stats["log"]
    assert "the database is gone" in stats["log"]
    site.take()
    site.crawl("Count", *settings)
    assert items(site) == PATHS
    assert set(site.take()) == set(PAGES) - {"/image"}


def test_a_listener_that_is_a_coroutine_is_refused(site: Site) -> None:
    settings = [JOB, 'ITEM_PIPELINES={"spiders.Asynchronous": 1}']
    process = site.start("Count", *settings)
    _, log = process.communicate(timeout=60)
    assert "is a coroutine" in log


def test_delays_of_autothrottle_go_on(site: Site) -> None:
    settings = [JOB, "AUTOTHROTTLE_ENABLED=1", "AUTOTHROTTLE_START_DELAY=0.3"]
    settings += ["AUTOTHROTTLE_DEBUG=1", "CONCURRENT_REQUESTS=1"]
    first = delays(die(site, "Count", 5, *settings))
    (delay, change), *_ = delays(site.crawl("Count", *settings)["log"])
    assert first[0][0] - first[0][1] == pytest.approx(300, abs=ROUNDING)
    assert any(abs(delay - change - known) <= ROUNDING for known, _ in first)


ROUNDING = 2
"""In milliseconds: of what is logged, both numbers are cut off."""


def delays(log: str) -> list[tuple[int, int]]:
    """Read the delays that AutoThrottle has set, in ms, and by how much it did."""
    found = re.findall(r"\| delay: *(\d+) ms \(([-+]\d+)\)", log)
    return [(int(delay), int(change)) for delay, change in found]


def test_a_server_that_asks_for_time_gets_it_also_from_the_next_run(
    site: Site,
) -> None:
    busy = {**PAGES, "/a": "!503 Retry-After: 3"}
    times: list[float] = []
    with page_server(busy, times) as (base, requested):
        site = Site(site.folder, base, requested)
        settings = [JOB, "CONCURRENT_REQUESTS=1", "RETRY_ENABLED=1", "RETRY_TIMES=1"]
        process = site.start("Told", *settings, "DIE_TOLD=1")
        _, log = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL, log
        told, count = requested.index("/a"), len(requested)
        process = site.start("Told", *settings)
        while len(requested) == count:
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
        process.communicate()
    assert times[count] - times[told] >= 3


def test_retry_after_can_be_ignored(site: Site) -> None:
    """Else the other pages would be due in an hour, and this would give up waiting."""
    busy = {**PAGES, "/a": "!503 Retry-After: 3600"}
    with page_server(busy) as (base, requested):
        site = Site(site.folder, base, requested)
        settings = [JOB, "CONCURRENT_REQUESTS=1", "BLOOMDUPE_MAX_RETRY_AFTER=0"]
        assert site.crawl("Count", *settings)["finish_reason"] == "finished"
        assert set(site.take()) == set(PAGES) - {"/a1", "/image"}
