"""Spiders of the workers that share a crawl."""

from __future__ import annotations

import uuid
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urljoin

from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro
from support.components import Listens
from support.site import on_host
from support.stops import pause

HOSTS = 7
"""On which the pages of a site are, but for the first."""
SLOT_OF_LEADER = "u"
"""A slot in the control partition."""


class All(Spider):
    """All pages of a site, on seven hosts."""

    name = "all"

    def number(self, response: Response) -> int:
        return int(response.url.rpartition("/")[2].rpartition("?")[2])

    def parse(self, response: Response) -> Any:
        yield {"page": self.number(response)}
        for href in response.css("a::attr(href)").getall():
            number = int(href[1:])
            if number < self.settings.getint("PAGES", 1_000):
                url = urljoin(self.start_urls[0], href)
                yield Request(on_host(url, number % HOSTS))


class Timed(Listens, All):
    """Says when the downloader has sent the request for a page."""

    name = "timed"
    custom_settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1}

    def headers_received(self, request: Request) -> None:
        slots = self.crawler.engine.downloader.slots  # type: ignore[union-attr]
        request.meta["asked"] = slots[request.meta["download_slot"]].lastseen

    def parse(self, response: Response) -> Any:
        asked = {"asked": response.meta["asked"]}
        for output in super().parse(response):
            yield output | asked if isinstance(output, dict) else output


class InTwoSteps(All):
    """Its ``start()`` goes on when there is a file ``go``."""

    name = "in two steps"

    async def start(self) -> Any:
        yield Request(self.start_urls[0], dont_filter=True)
        await self.until_told()
        yield self.second()

    async def until_told(self) -> None:
        while not Path("go").exists():
            await pause(0.01)

    def second(self) -> Request:
        return Request(self.start_urls[1], dont_filter=True)

    def parse(self, response: Response) -> Any:
        yield {"page": self.number(response)}


class InMemory(InTwoSteps):
    """Its second request cannot be stored."""

    def second(self) -> Request:
        return super().second().replace(meta={"lock": Lock()})


class InMemoryForLong(InMemory):
    """Its ``start()`` ends before the second request does."""

    async def start(self) -> Any:
        yield Request(self.start_urls[0], dont_filter=True)
        yield self.second()

    async def parse(self, response: Response) -> Any:
        if self.number(response):
            await self.until_told()
        yield {"page": self.number(response)}


class StartsMany(InTwoSteps):
    """Asks for ``START`` pages on all hosts, when it is told to."""

    name = "starts many"

    async def start(self) -> Any:
        await self.until_told()
        for number in range(self.settings.getint("START")):
            yield Request(on_host(f"{self.start_urls[0]}{number}", number % HOSTS))


class Begins(InTwoSteps):
    """Its ``start()`` has another item each time that it is called."""

    name = "begins"

    async def start(self) -> Any:
        yield {"begun": str(uuid.uuid4())}
        yield Request(self.start_urls[0], dont_filter=True)


class FromATask(Listens, InTwoSteps):
    """A task beside the crawl has the second request."""

    def spider_opened(self) -> None:
        deferred_from_coro(self.crawl_second())

    async def start(self) -> Any:
        yield Request(self.start_urls[0], dont_filter=True)
        await self.until_told()

    async def crawl_second(self) -> None:
        await self.until_told()
        engine: Any = self.crawler.engine
        engine.crawl(self.second())


class OnceFromATask(FromATask):
    """That request is a link to a host of the leader; only with ``TASK`` there is one.

    ``start()`` ends when there is a file ``end``.
    """

    async def start(self) -> Any:
        yield Request(self.start_urls[0], dont_filter=True)
        while not Path("end").exists():
            await pause(0.01)

    async def crawl_second(self) -> None:
        if self.settings["TASK"]:
            await super().crawl_second()

    def second(self) -> Request:
        return Request(self.start_urls[1], meta={"download_slot": SLOT_OF_LEADER})
