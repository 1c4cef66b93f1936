"""Spiders that talk to the engine: spider_idle, engine.crawl()."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import scrapy
from common import SITE, Pages, item
from scrapy.exceptions import DontCloseSpider
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro
from support.components import Listens
from support.stops import pause, stop_at
from table import idiom


@idiom()
class IdleState(Listens, Pages):
    """spider_idle calls engine.crawl() for the batch that spider.state names."""

    @property
    def kept(self) -> dict[str, Any]:
        state: dict[str, Any] = self.__dict__.setdefault("state", {})
        return state

    def parse(self, response: Response) -> Iterator[Any]:
        self.kept.setdefault("pages", []).append(response.url)
        yield item(response)

    def spider_idle(self) -> None:
        batch = self.kept.get("batch", 0)
        if batch < 3:
            self.kept["batch"] = batch + 1
            engine: Any = self.crawler.engine
            for number in range(5):
                url = f"{SITE}/detail/{5 * batch + number}"
                engine.crawl(scrapy.Request(url, dont_filter=True))
            raise DontCloseSpider


@idiom(moments=("marked",))
class IdleTable(Listens, Pages):
    """spider_idle takes pages from a table, in which callbacks mark what is done."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response)
        with Path("table").open("a") as file:
            file.write(f"{response.url}\n")
        if "/detail/7" in response.url:
            stop_at("marked")

    def spider_idle(self) -> None:
        table = Path("table")
        done = table.read_text() if table.exists() else ""
        left = [number for number in range(12) if f"/detail/{number}\n" not in done]
        engine: Any = self.crawler.engine
        for number in left[:5]:
            engine.crawl(scrapy.Request(f"{SITE}/detail/{number}"))
        if left:
            raise DontCloseSpider


@idiom()
class CrawlFromTimer(Listens, Pages):
    """engine.crawl() from a task of its own that runs beside the crawl."""

    left = 10

    def spider_opened(self) -> None:
        deferred_from_coro(self.feed())

    async def feed(self) -> None:
        engine: Any = self.crawler.engine
        while self.left:
            await pause(0.01)
            if engine.spider is None:  # it was stopped meanwhile
                return
            self.left -= 1
            engine.crawl(scrapy.Request(f"{SITE}/detail/{self.left}"))

    def spider_idle(self) -> None:
        if self.left:
            raise DontCloseSpider
