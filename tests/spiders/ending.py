"""Spiders that leave a request behind, or say too early that they have finished."""

from __future__ import annotations

import asyncio
from typing import Any

from scrapy import Request, Spider
from scrapy.exceptions import CloseSpider
from support.components import Listens, OfCrawler
from support.counters import PerRun

from spiders.follow import PutsOut


class Leaves(PutsOut):
    """One request cannot be scheduled, until ``MENDED`` is set."""

    name = "leaves"

    def parse(self, response: Any) -> Any:
        yield from super().parse(response)
        if response.url.endswith("/b"):
            yield self.request(response)

    def request(self, response: Any) -> Any:
        return response.follow("/x", meta={"bloomdupe_delay": self.delay})

    @property
    def delay(self) -> Any:
        return 0 if self.settings["MENDED"] else "soon"


class Breaks(Leaves):
    """The scheduling of its request fails, not the callback and not the errback."""

    def request(self, response: Any) -> Any:
        slot = {} if self.settings["MENDED"] else {"download_slot": Slot()}
        return response.follow("/x", meta=slot)


class Slot:
    def __str__(self) -> str:
        raise ZeroDivisionError("no slot")


class Start(Leaves):
    """The spider itself yields what is refused."""

    def request(self, response: Any) -> Any:
        return None

    async def start(self) -> Any:
        async for request in super().start():
            yield request
        yield Request(request.url + "x", meta={"bloomdupe_delay": self.delay})


class GivesReason(Leaves, Listens):
    """Ends with a reason of its own when it is idle."""

    delay = 0

    def spider_idle(self) -> None:
        raise CloseSpider(ValueError("all done"))  # type: ignore[arg-type]


class WaitsForEver(Spider):
    """Callbacks and pipelines wait, and then memory runs out, until ``MENDED`` is set.

    What they wait for would come, but a crawl that has failed hands nothing out.
    ``WHERE`` says whether it runs out in the callback of /d, or in its download.
    """

    name = "waits_for_ever"
    custom_settings = {
        "DOWNLOADER_MIDDLEWARES": {"spiders.ending.NoMemory": 1},
        "ITEM_PIPELINES": {"spiders.ending.Waits": 100},
    }
    waiting = PerRun(0)

    @property
    def fails(self) -> bool:
        return not self.settings["MENDED"]

    async def start(self) -> Any:
        yield {"page": "start"}
        for path, callback in (
            ("a", self.parse),
            ("b", self.in_one),
            ("c", self.in_turn),
            ("d", self.out_of_memory),
        ):
            yield Request(self.start_urls[0] + path, callback, errback=self.failed)

    def failed(self, failure: Any) -> None:
        self.logger.info("took care of it")

    async def wait(self) -> None:
        if self.fails:
            self.waiting += 1
            await asyncio.Event().wait()

    def parse(self, response: Any) -> Any:
        yield {"page": response.url[-1]}

    async def in_one(self, response: Any) -> Any:
        await self.wait()
        return [{"page": response.url[-1]}]

    async def in_turn(self, response: Any) -> Any:
        yield response.follow("/x", dont_filter=True)
        await self.wait()
        yield {"page": response.url[-1]}

    async def run_out_in(self, place: str) -> None:
        """Let memory run out in this place, when all others wait."""
        if self.fails and place == self.settings["WHERE"]:
            while self.waiting < 4:
                await asyncio.sleep(0.01)  # noqa: TID251 - in a loop that waits
            raise MemoryError

    async def out_of_memory(self, response: Any) -> Any:
        await self.run_out_in("callback")
        yield {"page": response.url[-1]}


class NoMemory(OfCrawler):
    async def process_request(self, request: Any, spider: Any = None) -> None:
        if request.url.endswith("/d"):
            await self.crawler.spider.run_out_in("download")


class Waits(OfCrawler):
    """A pipeline for an item of ``start()``, and for one of a page."""

    async def process_item(self, item: Any) -> Any:
        if item["page"] in ("start", "a"):
            try:
                await self.crawler.spider.wait()
            finally:  # its page ends before it
                await asyncio.sleep(0.1)  # noqa: TID251 - slow on purpose
        return item
