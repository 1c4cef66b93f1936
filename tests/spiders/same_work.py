"""Pages that ask for themselves, and start pages that cannot be stored."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response
from support.stops import moment

SHOPS = [f"shop {number}" for number in range(6)]


class Shops(Spider):
    """A page of which each part is a request for the page, in another order each run.

    Page and parts ask for the same other page.
    """

    name = "shops"

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        yield self.ask(response)
        order = random.Random(self.settings.getint("ORDER"))
        for number, shop in enumerate(order.sample(SHOPS, len(SHOPS))):
            await moment(self, f"shop {number}")
            yield Request(
                response.url, self.shop, dont_filter=True, cb_kwargs={"shop": shop}
            )

    def shop(self, response: Response, shop: str) -> Iterator[Any]:
        yield {"part": shop}
        yield self.ask(response)

    def ask(self, response: Response) -> Request:
        return response.follow("/a", self.token, dont_filter=True)

    def token(self, _: Response) -> Iterator[Any]:
        yield {"part": "token"}


class LambdaStart(Spider):
    """The start request cannot be stored, and has a child for its own page."""

    name = "lambda_start"

    async def start(self) -> AsyncIterator[Any]:
        pages = [*"abcdef"]  # a list may change, so a lambda that has it is not stored
        yield Request(self.start_urls[0], lambda response: self.work(response, pages))

    async def work(self, response: Response, pages: list[str]) -> AsyncIterator[Any]:
        yield response.follow("/", self.child, dont_filter=True)
        for page in pages:
            await moment(self, f"before {page}")
            yield response.follow(f"/{page}", self.child, dont_filter=True)

    def child(self, response: Response) -> Iterator[Any]:
        yield {"part": response.url.rpartition("/")[2]}


class Messages(Spider):
    """Each item of ``start()`` is a message of a queue, which has it once."""

    name = "messages"

    async def start(self) -> AsyncIterator[Any]:
        first = self.settings.getint("FIRST_MESSAGE")
        for number in range(first, first + 6):
            yield {"part": str(number)}
        await moment(self, "read")


class AsksInline(Spider):
    """A callback gives its own page to the engine once more, and waits for it."""

    name = "asks_inline"

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        if response.meta.get("inline"):
            self.answer.set_result(response.text)
            return
        yield {"part": await self.again(response)}

    async def again(self, response: Response) -> str:
        self.answer: asyncio.Future[str] = asyncio.Future()
        request = Request(response.url, dont_filter=True, meta={"inline": True})
        engine: Any = self.crawler.engine
        engine.crawl(request)
        return await self.answer


class AsksInlineAtOnce(AsksInline):
    """The same, and the callback is no generator."""

    name = "asks_inline_at_once"

    async def parse(self, response: Response) -> list[Any]:  # type: ignore[override]
        if response.meta.get("inline"):
            self.answer.set_result(response.text)
            return []
        return [{"part": await self.again(response)}]


class WaitsOnce(Spider):
    """A callback asks for its own page once more, and waits if it is to be stopped."""

    name = "waits_once"

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        if response.meta.get("again"):
            yield {"part": "again"}
            return
        yield {"part": "first"}
        yield Request(response.url, dont_filter=True, meta={"again": True})
        await moment(self, "again is asked for", self.is_asked_for)

    def is_asked_for(self) -> bool:
        stats = self.crawler.stats
        return bool(stats and stats.get_value("downloader/request_count") == 2)
