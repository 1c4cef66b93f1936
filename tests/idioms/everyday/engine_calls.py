"""Spiders that talk to the engine: spider_idle, engine.crawl(), close_spider()."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import scrapy
from common import SITE, item, once
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, DontCloseSpider
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro
from support.stops import pause
from table import idiom
from typing_extensions import Self


@idiom()
class IdleState(scrapy.Spider):
    """spider_idle calls engine.crawl() for the batch that spider.state names."""

    name = "idle_state"
    start_urls = [SITE + "/star"]

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.idle, signals.spider_idle)
        return spider

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
class CrawlFromTimer(scrapy.Spider):
    """engine.crawl() from a task of its own that runs beside the crawl."""

    name = "crawl_from_timer"
    start_urls = [SITE + "/star"]
    left = 10

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.opened, signals.spider_opened)
        crawler.signals.connect(spider.idle, signals.spider_idle)
        return spider

    def opened(self) -> None:
        from scrapy.utils.defer import deferred_from_coro

        deferred_from_coro(self.feed())

    async def feed(self) -> None:
        engine: Any = self.crawler.engine
        while self.left:
            await pause(0.01)
            if engine.spider is None:  # it was stopped meanwhile
                return
            self.left -= 1
            engine.crawl(scrapy.Request(f"{SITE}/detail/{self.left}"))

    def idle(self) -> None:
        if self.left:
            raise DontCloseSpider

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response)


STAR_ITEMS = tuple(f"/detail/{number}" for number in range(15))


@idiom(
    items=("/star", *STAR_ITEMS),
    repeats=2,
)
class Closes(scrapy.Spider):
    """CloseSpider raised among the links of a page; run again, the page comes again."""

    name = "closes"
    start_urls = [SITE + "/star"]

    def parse(self, response: Response) -> Iterator[Any]:
        for number, request in enumerate(response.follow_all(css="a")):
            if number == 5 and once("closed"):
                raise CloseSpider("enough for today")
            yield request
        yield item(response)


@idiom(items=("/star", *STAR_ITEMS), repeats=2)
class ClosesWhenFound(scrapy.Spider):
    """CloseSpider raised after an item; run again, the links of the page come."""

    name = "closes_when_found"
    start_urls = [SITE + "/star"]

    def parse(self, response: Response) -> Iterator[Any]:
        yield from response.follow_all(css="a")
        yield item(response)
        if once("closed"):
            raise CloseSpider("found")


class ClosesAtTen:
    """A pipeline that closes the spider at the tenth item."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.count = 0

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ClosesAtTen:
        return cls(crawler)

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
