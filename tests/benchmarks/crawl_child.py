"""One crawl: ``crawl_child.py SPIDER SETTINGS ARGUMENTS`` prints its stats and costs.

``InMemory`` crawls a site that is answered from memory, without a network: the rest
is Scrapy and us. Page n is on host ``n % hosts``. It links to its two children and to
pages anywhere, until it has ``links``, as the pages of ``graph_server.py`` do. With
``every``, its costs are printed after so many pages, too, with the size of the store in
``JOBDIR``.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.extensions.feedexport import FeedExporter
from scrapy.http import HtmlResponse, Response
from scrapy.statscollectors import MemoryStatsCollector

sys.path.append(str(Path(__file__).parents[2]))


LOOKUPS = 100_000
FILLER = "<p>" + "some text " * 200 + "</p>"


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
        "peak": usage.ru_maxrss / 1000,
        "files": len(os.listdir("/proc/self/fd")),  # noqa: PTH208
    }


def hrefs(response: Response) -> list[str]:
    """Return the links of a page, but for ``mailto:`` and the like."""
    if not isinstance(response, HtmlResponse):
        return []
    return [
        href
        for href in response.css("a::attr(href)").getall()
        if href.startswith("http") or ":" not in href.partition("/")[0]
    ]


class Follow(Spider):
    """As in Scrapy's tutorial."""

    name = "follow"
    custom_settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 16}

    def parse(self, response: Response) -> Iterator[Any]:
        for href in hrefs(response):
            yield response.follow(href)


class Helped(Follow):
    """With the link helper."""

    def parse(self, response: Response) -> Iterator[Any]:
        from bloomdupe import new_links  # not part of the rivals' time

        for url in new_links(self, map(response.urljoin, hrefs(response))):
            yield Request(url)


class SetInSpider(Follow):
    """The limit: a plain set of URLs in the spider."""

    def parse(self, response: Response) -> Iterator[Any]:
        seen = self.__dict__.setdefault("seen", set())
        for url in map(response.urljoin, hrefs(response)):
            if url not in seen:
                seen.add(url)
                yield Request(url)


class SetInMiddleware:
    """The other limit: a plain set of URLs next to the spider."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    async def process_spider_output(
        self,
        response: Response,  # noqa: ARG002
        result: AsyncIterator[Any],
    ) -> AsyncIterator[Any]:
        async for output in result:
            if isinstance(output, Request):
                if output.url in self.seen:
                    continue
                self.seen.add(output.url)
            yield output


class Memory(BaseDownloadHandler):
    """Answers the requests of ``InMemory``."""

    async def download_request(self, request: Request) -> Response:
        site: Any = self.crawler.spider
        if site.latency:
            await asyncio.sleep(site.latency)
        number = int(request.url.rpartition("/")[2] or 0)
        links = [2 * number + 1, 2 * number + 2, number // 2, number // 3]
        links += [number * 7919 + other * 104_729 for other in range(site.links - 4)]
        links = [link % site.pages for link in links[: site.links]]
        body = "".join(f"<a href='{site.url(link)}'>x</a>" for link in links)
        return HtmlResponse(
            request.url,
            headers={"Content-Type": "text/html"},
            body=f"<html><body>{FILLER}{body}</body></html>".encode(),
        )


class InMemory(Spider):
    """Follows all links; ``found`` has the times of the first and of the last page."""

    name = "in_memory"
    custom_settings = {
        "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
        "DOWNLOAD_HANDLERS": {"http": Memory},
    }
    pages = links = hosts = 1
    every = 0
    latency = 0.0

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

    def parse(self, response: Response) -> Iterator[Any]:
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)


class Shop(Spider):
    """Has so many ``items`` on a page."""

    name = "shop"
    custom_settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 16}
    items = 0

    def parse(self, response: Response) -> Iterator[Any]:
        for number in range(self.items):
            yield {
                "url": response.url, "number": number, "name": f"Article {number}",
                "price": number * 1.5, "text": "some text " * 10,
            }  # fmt: skip
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)


class Scrapys(FeedExporter):
    """Scrapy's own under another name: for the add-on it is a class of the user."""


class ScrapysStats(MemoryStatsCollector):
    """The same for stats."""


class Resumed(Spider):
    """Stops after one page, with the links of that page pending."""

    name = "links"
    custom_settings = {
        "CONCURRENT_REQUESTS": 1,
        "CLOSESPIDER_PAGECOUNT": 1,
    }

    def parse(self, response: Response) -> Iterator[Any]:
        gc.collect()
        first = cost()["megabytes"]
        engine: Any = self.crawler.engine
        filter_ = getattr(engine._slot.scheduler.df, "_filter", None)
        if filter_ is not None:
            for number in range(LOOKUPS):
                filter_.contains(b"%020d" % number)
        gc.collect()
        self.found = {"at first": first, "later": cost()["megabytes"]}
        for number in range(20):
            yield response.follow(f"/{len(response.url)}-{number}")


class Many(Spider):
    """Asks for so many ``requests``, and counts those that are given up."""

    name = "many"
    requests = 0

    async def start(self) -> AsyncIterator[Any]:
        for number in range(self.requests):
            yield Request(f"{self.start_urls[0]}/{number}", errback=self.lost)

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"page": response.url}

    def lost(self, _: object) -> None:
        self.crawler.stats.inc_value("lost")


class Slots(Spider):
    """Five pages on each of 200 slots."""

    name = "slots"
    custom_settings = {
        "DOWNLOAD_DELAY": 1,
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
    }

    async def start(self) -> AsyncIterator[Any]:
        base = self.start_urls[0].removesuffix("0")
        for number in range(1000):
            slot = {"download_slot": f"host{number // 5}"}
            yield Request(f"{base}{number}", meta=slot)

    def parse(self, response: Response) -> None:
        """Yield nothing."""


class Burst(Spider):
    """One page with so many new ``links`` on so many ``hosts``.

    ``found`` has the longest checkpoint: wall time, CPU time, and CPU time without
    Python's garbage collection, in ms.
    """

    name = "burst"
    custom_settings = {
        "DOWNLOAD_DELAY": 60,  # so that no link is followed
        "CLOSESPIDER_PAGECOUNT": 1,
    }
    links = hosts = 0

    def parse(self, response: Response) -> Iterator[Any]:
        del response
        self.found = _watch_checkpoints()
        for number in range(self.links):
            host = f"host-{number % self.hosts}.example"
            yield Request(f"http://{host}/articles/2026/a-page-{number}.html")


def _watch_checkpoints() -> dict[str, float]:
    from bloomdupe.crawl.engines.checkpoint import Checkpoint

    found = {"checkpoints": 0.0, "wall": 0.0, "cpu": 0.0, "own": 0.0}
    steps = Checkpoint.steps
    collecting = [0.0, 0.0]

    def collect(phase: str, _: object) -> None:
        collecting[1] = time.process_time() - collecting[1]
        if phase == "stop":
            collecting[0] += collecting[1]
            collecting[1] = 0.0

    def timed(cut: Checkpoint, **options: Any) -> Iterator[Any]:
        wall, cpu = time.perf_counter(), time.process_time()
        before = collecting[0]
        yield from steps(cut, **options)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        own = cpu - collecting[0] + before
        found["checkpoints"] += 1
        for name, seconds in (("wall", wall), ("cpu", cpu), ("own", own)):
            found[name] = max(found[name], 1e3 * seconds)

    gc.callbacks.append(collect)
    Checkpoint.steps = timed  # type: ignore[method-assign, assignment]
    return found


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
