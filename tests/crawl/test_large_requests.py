"""Large requests in real crawls: what waits is on disk, and not in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.page_server import page_server
from support.small_site import JOB, Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

SPIDERS = """
import os, resource
import scrapy
from scrapy import signals

MORE = {"bloomdupe_delay": 0.001}


class Large(scrapy.Spider):
    # 200 MB on one page.
    name = "large"
    more = {}

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.opened, signals.spider_opened)
        crawler.signals.connect(spider.closed_, signals.spider_closed)
        return spider

    def most(self):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

    def opened(self):
        self.before = self.most()

    def closed_(self):
        self.crawler.stats.set_value("grown", self.most() - self.before)

    def requests(self, response):
        for number in range(1_000):
            meta = {"text": os.urandom(100_000).hex(), **self.more}
            yield response.follow(f"/{number}", self.leaf, meta=meta)

    def parse(self, response):
        yield from self.requests(response)

    def leaf(self, response):
        assert len(response.meta["text"]) == 200_000


class Asynchronous(Large):
    name = "asynchronous"

    async def parse(self, response):
        for request in self.requests(response):
            yield request


class Later(Large):
    name = "later"
    more = MORE


class Slots(Large):
    name = "slots"

    def requests(self, response):
        for number, request in enumerate(super().requests(response)):
            request.meta["download_slot"] = f"slot {number}"
            yield request
"""

FEW = "CONCURRENT_REQUESTS=4"
MOST = 80
"""MB that a crawl may take beyond what an empty one does."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "spiders.py").write_text(SPIDERS)
    pages = {"/": "", **{f"/{number}": "" for number in range(1_000)}}
    with page_server(pages) as (base, requested):
        yield Site(folder, base, requested)


@pytest.mark.parametrize("spider", ["Large", "Asynchronous", "Later", "Slots"])
def test_large_requests_of_one_page_are_not_kept_in_memory(
    site: Site, spider: str
) -> None:
    stats = site.crawl(spider, JOB, FEW, "CLOSESPIDER_PAGECOUNT=20")
    assert stats["bloomdupe/pending"] > 900
    assert stats["grown"] < MOST
    stats = site.crawl(spider, JOB, FEW, "CLOSESPIDER_PAGECOUNT=100")
    assert stats["downloader/response_count"] >= 100
    assert stats["grown"] < MOST
