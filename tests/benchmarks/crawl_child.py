"""One crawl: ``crawl_child.py SPIDER SETTINGS ARGUMENTS`` prints its stats and costs.

``InMemory`` crawls a site that is answered from memory, without a network: the rest
is Scrapy and us. Page n is on host ``n % hosts``. It links to its two children and to
pages anywhere, until it has ``links``. With
``every``, its costs are printed after so many pages, too, with the size of the store in
``JOBDIR``.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from runner import field
from scrapy import Request, Spider, signals
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.http import HtmlResponse, Response
from scrapy.statscollectors import MemoryStatsCollector

FILLER = "<p>" + "some text " * 200 + "</p>"


def cost() -> dict[str, float]:
    """Return CPU seconds, and MB of memory that are the process's own."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    anonymous = int(field("/proc/self/status", "RssAnon").split()[0])
    return {
        "user": usage.ru_utime,
        "all": usage.ru_utime + usage.ru_stime,
        "megabytes": anonymous / 1000,
        "files": len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - a count is enough
    }


def page(number: int, pages: int, links: int, url: Callable[[int], str]) -> str:
    """Return a page with links to its two children, two above it, and any others.

    So all but two of them were seen before, or soon will be.
    """
    found = [2 * number + 1, 2 * number + 2, number // 2, number // 3]
    found += [number * 7919 + other * 104_729 for other in range(links - 4)]
    some = "".join(f"<a href='{url(one % pages)}'>x</a>" for one in found[:links])
    return f"<html><body>{FILLER}{some}</body></html>"


class Follow(Spider):
    """As in Scrapy's tutorial."""

    name = "follow"
    custom_settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 16}

    def parse(self, response: Response) -> Iterator[Any]:
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)


class Memory(BaseDownloadHandler):
    """Answers the requests of ``InMemory``."""

    async def download_request(self, request: Request) -> Response:
        site: Any = self.crawler.spider
        number = int(request.url.rpartition("/")[2] or 0)
        body = page(number, site.pages, site.links, site.url)
        headers = {"Content-Type": "text/html"}
        return HtmlResponse(request.url, headers=headers, body=body.encode())


class InMemory(Follow):
    """Follows all links; ``found`` has the times of the first and of the last page."""

    name = "in_memory"
    custom_settings = {
        **Follow.custom_settings,
        "DOWNLOAD_HANDLERS": {"http": Memory},
    }
    pages = links = hosts = 1
    every = 0

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **more: Any) -> InMemory:
        spider = super().from_crawler(crawler, *args, **more)
        spider.found = {"opened": 0.0, "first": 0.0, "last": 0.0}
        spider.start_urls = [spider.url(0)]
        spider.count = 0
        crawler.signals.connect(spider.begin, signals.spider_opened)
        crawler.signals.connect(spider.take, signals.response_received)
        return spider

    def url(self, number: int) -> str:
        return f"http://host{number % self.hosts}.example/articles/page/{number}"

    def begin(self) -> None:
        self.found["opened"] = cost()["user"]

    def take(self) -> None:
        self.count += 1
        self.found["last"] = time.time()
        self.found["first"] = self.found["first"] or self.found["last"]
        if self.every and not self.count % self.every:
            data = Path(self.settings["JOBDIR"] or "", "bloomdupe", "data.mdb")
            disk = data.stat().st_blocks * 512 / 1e6 if data.exists() else 0.0
            print(json.dumps({"pages": self.count, **cost(), "disk": disk}), flush=True)


class ScrapysStats(MemoryStatsCollector):
    """Scrapy's own under another name: for the add-on it is a class of the user."""


def main() -> None:
    name, settings, arguments = sys.argv[1:]
    process = CrawlerProcess(
        {
            "LOG_LEVEL": "ERROR",
            "TELNETCONSOLE_ENABLED": False,
            "REMOTE_CONTROL_ENABLED": False,
            **json.loads(settings),
        }
    )
    crawler: Any = process.create_crawler(globals()[name])
    process.crawl(crawler, **json.loads(arguments))
    process.start()
    found = getattr(crawler.spider, "found", {})
    stats = crawler.stats.get_stats()
    print(json.dumps({**cost(), **stats, **found}, default=str))


if __name__ == "__main__":
    main()
