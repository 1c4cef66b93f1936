"""Spiders that talk to the engine: spider_idle, engine.crawl(), close_spider()."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import scrapy
from common import SITE, item, once
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro
from support.components import HearsIdle, OfCrawler
from support.stops import pause
from table import idiom
from typing_extensions import Self


@idiom()
class IdleState(HearsIdle):
    """spider_idle calls engine.crawl() for the batch that spider.state names."""

    name = "idle_state"
    start_urls = [SITE + "/star"]

    def idle(self) -> None:
        state = self.__dict__.setdefault("state", {})
        batch = state.get("batch", 0)
        if batch < 3:
            state["batch"] = batch + 1
            engine: Any = self.crawler.engine
            for number in range(5):
                url = f"{SITE}/detail/{5 * batch + number}"
                engine.crawl(scrapy.Request(url, dont_filter=True))
            raise DontCloseSpider

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response)


@idiom()
class CrawlFromTimer(HearsIdle):
    """engine.crawl() from a task of its own that runs beside the crawl."""

    name = "crawl_from_timer"
    start_urls = [SITE + "/star"]
    left = 10

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.opened, signals.spider_opened)
        return spider

    def opened(self) -> None:
        deferred_from_coro(self.feed())

    async def feed(self) -> None:
        engine: Any = self.crawler.engine
        while self.left:
            await pause(0.01)
            self.left -= 1
            engine.crawl(scrapy.Request(f"{SITE}/detail/{self.left}"))

    def idle(self) -> None:
        if self.left:
            raise DontCloseSpider

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response)


STAR_ITEMS = tuple(f"/detail/{number}" for number in range(15))


class ClosesAtTen(OfCrawler):
    """A pipeline that closes the spider at the tenth item."""

    count = 0

    def process_item(self, item: Any, *_: Any) -> Any:
        self.count += 1
        if self.count == 10 and once("closed"):
            engine: Any = self.crawler.engine
            deferred_from_coro(engine.close_spider_async(reason="enough items"))
        return item


@idiom(
    settings={"ITEM_PIPELINES": {"everyday.engine_calls.ClosesAtTen": 100}},
    items=("/star", *STAR_ITEMS),
    repeats=2,
)
class PipelineCloses(scrapy.Spider):
    """A pipeline closes the spider; run again, the rest comes."""

    name = "pipeline_closes"
    start_urls = [SITE + "/star"]

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response)
        yield from response.follow_all(css="a")
