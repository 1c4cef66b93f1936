"""A site answered from memory, without a network: what is left is Scrapy and us.

    python tests/benchmarks/from_memory.py PAGES LINKS HOSTS SETTINGS

crawls it once, and prints what that has cost, as JSON; with ``--every N``, after every
N pages, too. With ``--latency S``, each answer takes S seconds. ``crawl.py
--from-memory`` and ``shared_crawl.py`` call it.

Page n lies on host ``n % HOSTS``. It links to its two children and to others anywhere,
until it has LINKS, as the pages of ``graph_server.py`` do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import sys
import time
from typing import TYPE_CHECKING, Any, cast

from scrapy import Spider, signals
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.crawler import CrawlerProcess
from scrapy.http import HtmlResponse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

PAGES = LINKS = HOSTS = EVERY = 0
LATENCY = 0.0
FILLER = "<p>" + "some text " * 200 + "</p>"


class Memory(BaseDownloadHandler):
    async def download_request(self, request: Request) -> Response:
        if LATENCY:
            await asyncio.sleep(LATENCY)
        number = int(request.url.rpartition("/")[2] or 0)
        links = [2 * number + 1, 2 * number + 2, number // 2, number // 3]
        links += [number * 7919 + other * 104_729 for other in range(LINKS - 4)]
        links = [link % PAGES for link in links[:LINKS]]
        body = "".join(f"<a href='{url(link)}'>x</a>" for link in links)
        return HtmlResponse(
            request.url,
            headers={"Content-Type": "text/html"},
            body=f"<html><body>{FILLER}{body}</body></html>".encode(),
        )


def url(number: int) -> str:
    return f"http://host{number % HOSTS}.example/articles/page/{number}"


class Follow(Spider):
    """As in Scrapy's tutorial."""

    name = "follow"
    pages = 0
    opened = 0.0
    """User CPU of the process when the spider was opened."""
    first = last = 0.0
    """Unix time of the first and of the last page."""

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **more: Any) -> Follow:
        spider = super().from_crawler(crawler, *args, **more)
        crawler.signals.connect(spider.begin, signals.spider_opened)
        crawler.signals.connect(spider.count, signals.response_received)
        return spider

    def begin(self) -> None:
        self.opened = cost()["user"]

    def count(self) -> None:
        self.pages += 1
        self.last = time.time()
        self.first = self.first or self.last
        if EVERY and not self.pages % EVERY:
            print(json.dumps({"pages": self.pages, **cost()}), flush=True)

    def parse(self, response: Response) -> Iterator[Request]:
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)


def cost() -> dict[str, float]:
    """Return CPU seconds, and MB of memory that are the process's own."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    anonymous = 0
    with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123
        for line in status:
            if line.startswith("RssAnon"):
                anonymous = int(line.split()[1])
    return {
        "user": usage.ru_utime,
        "all": usage.ru_utime + usage.ru_stime,
        "megabytes": anonymous / 1000,
        "files": len(os.listdir("/proc/self/fd")),  # noqa: PTH208
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("pages", type=int)
    parser.add_argument("links", type=int)
    parser.add_argument("hosts", type=int)
    parser.add_argument("settings", type=json.loads)
    parser.add_argument("--every", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0)
    given = parser.parse_args()
    PAGES, LINKS, HOSTS = given.pages, given.links, given.hosts
    EVERY, LATENCY = given.every, given.latency
    process = CrawlerProcess(
        {
            "LOG_LEVEL": "ERROR",
            "TELNETCONSOLE_ENABLED": False,
            "REMOTE_CONTROL_ENABLED": False,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
            "DOWNLOAD_HANDLERS": {"http": Memory},
            **given.settings,
        }
    )
    crawler = process.create_crawler(Follow)
    process.crawl(crawler, start_urls=[url(0)])
    process.start()
    stats, spider = cast("Any", crawler.stats), cast("Follow", crawler.spider)
    print(
        json.dumps(
            {
                **cost(),
                "pages": stats.get_value("response_received_count"),
                "filtered": stats.get_value("dupefilter/filtered", 0),
                "longest": stats.get_value("bloomdupe/checkpoint_seconds_max"),
                "reason": stats.get_value("finish_reason"),
                "opened": spider.opened,
                "first": spider.first,
                "last": spider.last,
            }
        )
    )
    sys.exit()
