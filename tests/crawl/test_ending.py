"""When a crawl is finished, and when it is incomplete; in real crawls."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.page_server import page_server
from support.small_site import JOB, PAGES, Site

from bloomdupe.jobs.on_disk.state_on_disk import overview

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

SPIDERS = """
import os
import scrapy
from scrapy import Request, signals
from scrapy.exceptions import CloseSpider
from scrapy.exporters import JsonLinesItemExporter


class Whole(JsonLinesItemExporter):
    # Such an exporter cannot be interrupted.
    def finish_exporting(self):
        super().finish_exporting()


class Pages(scrapy.Spider):
    name = "pages"
    custom_settings = {"FEED_EXPORTERS": {"whole": "spiders.Whole"}}
    mended = False

    def parse(self, response):
        yield {"page": response.url.rpartition("/")[2]}
        yield from response.follow_all(css="a")
        if response.url.endswith("/b"):
            yield self.request(response)

    def request(self, response):
        delay = 0 if self.mended else "soon"
        return response.follow("/x", meta={"bloomdupe_delay": delay})


class Mended(Pages):
    mended = True


class Renamed(Pages):
    # What it has stored, a later one cannot restore.
    def request(self, response):
        raise CloseSpider("stopped")

    def parse(self, response):
        yield {"page": response.url.rpartition("/")[2]}
        yield from response.follow_all(css="a", callback=self.renamed)
        if response.url.endswith("/"):
            raise CloseSpider("stopped")

    def renamed(self, response):
        yield from super().parse(response)


class Breaks(Pages):
    # Neither callback nor errback break off, but what takes the request in.
    def request(self, response):
        request = response.follow("/x")
        if not self.mended:
            request.meta["download_slot"] = Slot()
        return request


class Slot:
    def __str__(self):
        raise ZeroDivisionError("no slot")


class BreaksMended(Breaks):
    mended = True


class Start(Pages):
    # The spider itself yields what is refused.
    def request(self, response):
        return None

    async def start(self):
        async for request in super().start():
            yield request
        delay = 0 if self.mended else "soon"
        yield Request(request.url + "x", meta={"bloomdupe_delay": delay})


class StartMended(Start):
    mended = True


class Says(Pages):
    # Says itself that it is finished, in the midst of the crawl.
    def request(self, response):
        raise CloseSpider("finished")


class Fed(Pages):
    # Gets work when it is idle, and again, and in the end none.
    fed = 0

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.idle, signals.spider_idle)
        return spider

    def idle(self):
        self.fed += 1
        if self.fed < 3:
            request = Request(self.start_urls[0] + f"fed{self.fed}", self.parse)
            self.crawler.engine.crawl(request)
"""

FEED = "FEEDS=" + json.dumps({"items.whole": {"format": "whole"}})
ALL = {path[1:] for path in PAGES}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "spiders.py").write_text(SPIDERS)
    pages = {**PAGES, "/x": "", "/fed1": "", "/fed2": ""}
    with page_server(pages) as (base, requested):
        yield Site(folder, base, requested)


def crawl(site: Site, spider: str, *settings: str) -> tuple[int, str]:
    """Run a crawl as ``scrapy crawl`` does; return exit status and log."""
    process = site.start(spider, FEED, "EXIT_AS_SCRAPY_DOES=1", *settings)
    _, log = process.communicate(timeout=60)
    return process.returncode, log


def stats(site: Site) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((site.folder / "stats.json").read_text())
    return found


def delivered(site: Site) -> list[str]:
    lines = (site.folder / "items.whole").read_text().splitlines()
    return sorted(json.loads(line)["page"] for line in lines)


@pytest.mark.parametrize(
    ("spider", "mended", "why"),
    [
        ("Pages", "Mended", "meta['bloomdupe_delay'] = 'soon': expected seconds"),
        ("Breaks", "BreaksMended", "its processing broke off: ZeroDivisionError"),
        ("Start", "StartMended", "meta['bloomdupe_delay'] = 'soon': expected seconds"),
    ],
)
def test_a_crawl_with_a_request_left_is_incomplete_until_it_is_done(
    site: Site, spider: str, mended: str, why: str
) -> None:
    for _ in range(2):
        status, log = crawl(site, spider, JOB)
        assert status == 1, log
        assert stats(site)["finish_reason"] == "incomplete"
        (line,) = [line for line in log.splitlines() if "is incomplete" in line]
        assert "Requests that are not done: 1, such as" in line
        assert why in line
        assert ("start() yields them again" in line) == (spider == "Start")
        assert ("`bloomdupe drop`" in line) == (spider != "Start")
        assert not (site.folder / "items.whole").exists()
        job = overview(site.folder / "job/bloomdupe")
        assert job is not None
        assert job.runs is not None
        assert job.runs.last_run == "incomplete"
    status, log = crawl(site, mended, JOB)
    assert status == 0, log
    assert stats(site)["finish_reason"] == "finished"
    assert delivered(site) == sorted([*ALL, "x"])
    job = overview(site.folder / "job/bloomdupe")
    assert job is not None
    assert job.runs is not None
    assert (job.runs.last_run, job.pending) == ("finished", 0)


def test_requests_that_cannot_be_restored_leave_a_crawl_incomplete(site: Site) -> None:
    status, log = crawl(site, "Renamed", JOB)
    assert status == 0, log
    pending = stats(site)["bloomdupe/pending"] + stats(site)["bloomdupe/unfinished"]
    status, log = crawl(site, "Mended", JOB)
    assert status == 1
    assert stats(site)["finish_reason"] == "incomplete"
    left = stats(site)["bloomdupe/unrestorable"]
    assert 1 < left <= pending
    assert f"Requests that are not done: {left}, such as {site.base}/" in log
    assert "it cannot be restored: " in log
    assert not (site.folder / "items.whole").exists()


def test_without_a_job_what_is_left_is_lost_and_that_is_said(site: Site) -> None:
    status, log = crawl(site, "Pages")
    assert status == 1
    assert "They are lost, for there is no JOBDIR" in log


def test_a_spider_that_says_so_in_the_midst_has_not_finished(site: Site) -> None:
    status, log = crawl(site, "Says", JOB, "CONCURRENT_REQUESTS=1")
    assert status == 1, log
    assert not (site.folder / "items.whole").exists()
    status, log = crawl(site, "Mended", JOB)
    assert status == 0, log
    assert delivered(site) == sorted([*ALL, "x"])


def test_work_that_comes_while_idle_is_done_first(site: Site) -> None:
    status, log = crawl(site, "Fed", JOB)
    assert status == 1
    assert {"/fed1", "/fed2"} <= set(site.requested)
    assert log.count("is incomplete") == 1
