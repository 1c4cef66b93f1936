"""start(): requests, items, and waits between them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import scrapy
from common import SITE, download, item
from scrapy.crawler import Crawler
from scrapy.http import Response
from support.stops import moment, pause, wanted
from table import idiom


@idiom()
class StartUrls(scrapy.Spider):
    """Many start_urls, some of them twice."""

    name = "start_urls"
    start_urls = [f"{SITE}/detail/{number}" for number in (*range(12), 3, 5)]

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response)


@dataclass
class Category:
    """Knows its parent and its children."""

    name: str
    parent: Category | None = None
    children: list[Category] = field(default_factory=list)

    def add(self, name: str) -> Category:
        self.children.append(Category(name, self))
        return self.children[-1]


@idiom()
class StartLinked(scrapy.Spider):
    """Start requests that are filtered like any request; pages link to them."""

    name = "start_filtered"

    async def start(self) -> AsyncIterator[Any]:
        for number in (0, 1, 5, 9, 1):
            yield scrapy.Request(f"{SITE}/{number}")

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response)
        yield from response.follow_all(css="a")


@idiom(repeats=2, start_asks=("/star",))
class StartInline(scrapy.Spider):
    """start() downloads a list and yields its entries."""

    name = "start_inline"

    async def start(self) -> AsyncIterator[Any]:
        listed = await download(self.crawler, scrapy.Request(SITE + "/star"))
        for request in listed.follow_all(css="a"):
            yield request

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response)


class SlowForTheFirst:
    """A pipeline in which the first item stays longer than the rest."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> SlowForTheFirst:
        return cls(crawler)

    async def process_item(self, item: Any, *_: Any) -> Any:
        if item["part"] == 0 and wanted("first waits"):
            await pause(60)
        spider: Any = self.crawler.spider
        spider.through += 1
        return item


@idiom(
    settings={"ITEM_PIPELINES": {"everyday.starts.SlowForTheFirst": 100}},
    moments=("first waits",),
)
class StartItems(scrapy.Spider):
    """start() yields items; the second and third are through before the first."""

    name = "start_items"
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


@idiom(
    settings={"ITEM_PIPELINES": {"everyday.starts.SlowerAndSlower": 100}},
)
class StartManyItems(scrapy.Spider):
    """start() yields items and requests; the pipeline overtakes."""

    name = "start_many_items"

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
class StartMemory(scrapy.Spider):
    """Start requests with lambda callbacks that have a list: they are not stored."""

    name = "start_memory"

    async def start(self) -> AsyncIterator[Any]:
        for number in range(8):
            yield scrapy.Request(
                f"{SITE}/detail/{number}",
                lambda response, parts=["list"]: item(response, parts[0]),
                dont_filter=True,
            )
