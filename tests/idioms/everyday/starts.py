"""start(): requests, items, and waits between them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy
from common import SITE, item
from scrapy.http import Response
from support.components import OfCrawler
from support.stops import moment, pause, wanted
from table import idiom


class SlowForTheFirst(OfCrawler):
    """A pipeline in which the first item stays longer than the rest."""

    async def process_item(self, item: Any, *_: Any) -> Any:
        if item["part"] == 0 and wanted("first waits"):
            await pause(60)
        spider: Any = self.crawler.spider
        spider.through += 1
        return item


@idiom(item_pipelines={SlowForTheFirst: 100}, moments=("first waits",))
class StartItems(scrapy.Spider):
    """start() yields items; the second and third are through before the first."""

    through = 0

    async def start(self) -> AsyncIterator[Any]:
        for number in range(3):
            yield {"page": "start", "part": number}
        await moment(self, "first waits", lambda: self.through == 2)
        yield {"page": "start", "part": 3}


class SlowerAndSlower:
    """A pipeline that takes a longer time for each item."""

    async def process_item(self, item: Any, *_: Any) -> Any:
        await pause((7 * hash(item["part"]) % 5) * 0.01)
        return item


@idiom(item_pipelines={SlowerAndSlower: 100})
class StartManyItems(scrapy.Spider):
    """start() yields items and requests; the pipeline overtakes."""

    async def start(self) -> AsyncIterator[Any]:
        for number in range(20):
            yield {"page": "start", "part": number}
            if number % 3 == 0:
                yield scrapy.Request(f"{SITE}/detail/{number}")
            if number % 5 == 0:
                await pause(0.01)
        await pause(0.06)  # or Scrapy finds out at its next heartbeat that it is over
        yield scrapy.Request(f"{SITE}/detail/20")

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response, 1)


@idiom()
class Counted(scrapy.Spider):
    """start() sets the number of the first page, and each page asks for the next."""

    async def start(self) -> AsyncIterator[Any]:
        self.page, self.ended = 1, False
        await pause(0.05)  # or no page would be handed out before
        yield scrapy.Request(f"{SITE}/detail/{self.page}")
        self.ended = True

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        while response.url.endswith("/1") and not self.ended:  # or it is start()'s own
            await pause(0.01)
        yield item(response)
        if self.page < 12:
            self.page += 1
            yield scrapy.Request(f"{SITE}/detail/{self.page}")


@idiom()
class TakesOut(scrapy.Spider):
    """start() takes its URLs out of an attribute, while callbacks are at work."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.left = list(range(30))

    async def start(self) -> AsyncIterator[Any]:
        while self.left:
            yield scrapy.Request(f"{SITE}/detail/{self.left.pop(0)}")
            await pause(0.01)

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        await pause(0.1)
        yield item(response)
