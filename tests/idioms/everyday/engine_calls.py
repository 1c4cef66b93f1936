"""Spiders that talk to the engine: spider_idle, engine.crawl()."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
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

    @property
    def left(self) -> list[scrapy.Request]:
        table = Path("table")
        done = table.read_text() if table.exists() else ""
        urls = [f"{SITE}/detail/{number}" for number in range(12)]
        return [scrapy.Request(url) for url in urls if f"{url}\n" not in done]

    def spider_idle(self) -> None:
        engine: Any = self.crawler.engine
        left = self.left
        for request in left[:5]:
            engine.crawl(request)
        if left:
            raise DontCloseSpider


@idiom(moments=("marked",))
class TimerTable(IdleTable):
    """A task of its own takes them, beside a page that is at work for long."""

    pages = 0

    async def parse(self, response: Response) -> AsyncIterator[Any]:  # type: ignore[override]
        self.pages += 1
        if response.url.endswith("/star"):
            await pause(1)
        for one in super().parse(response):
            yield one

    def spider_opened(self) -> None:
        deferred_from_coro(self.feed())

    async def feed(self) -> None:
        engine: Any = self.crawler.engine
        for request in self.left:
            await pause(0.05)
            if engine.spider is None:  # it was stopped meanwhile
                return
            engine.crawl(request)
