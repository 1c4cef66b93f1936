"""Start requests that differ from run to run."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.core.engine import ExecutionEngine
from scrapy.exceptions import DropItem
from support.components import Listens, OfCrawler
from support.counters import PerRun
from support.forks import DEADLINE
from support.stops import moment


class Base(Spider):
    def parse(self, response: Any, n: int = 0, at: str = "") -> Any:
        yield {"page": response.url[-1], "n": n}

    def request(self, name: str, **kwargs: Any) -> Request:
        url = self.start_urls[0] + name
        return Request(url, dont_filter=True, cb_kwargs=kwargs)


class Stamped(Base):
    """Two for one page, and one for another."""

    name = "stamped"
    yielded_all = PerRun(False)

    async def start(self) -> Any:
        for name in "aab":
            yield self.request(name, at=str(uuid.uuid4()))
        if self.settings["MORE"]:
            yield self.request("a")
            yield self.request("c", at=str(uuid.uuid4()))
        self.yielded_all = True

    async def parse(self, response: Any, n: int = 0, at: str = "") -> Any:
        await moment(self, "all", when=lambda: self.yielded_all)
        for output in super().parse(response, n, at):
            yield output


class Fed(Base):
    """Yields two more each time that nothing is pending, as lazy spiders do."""

    name = "fed"
    custom_settings = {"DOWNLOAD_DELAY": 0.1}

    async def start(self) -> Any:
        for names in ("abc", "cba"):
            for name in names:
                yield self.request(name)
            await self.crawler.signals.wait_for(signals.scheduler_empty)
            scheduler = self.crawler.engine._slot.scheduler  # type: ignore[union-attr]
            yield {"page": names, "n": len(scheduler)}


def without_heartbeat() -> None:
    """Let Scrapy's engine ask for no request by itself."""
    ExecutionEngine._SLOT_HEARTBEAT_INTERVAL = 10 * DEADLINE


class InTurn(Base):
    """Killed between the two; the second run has another order."""

    name = "in_turn"

    async def start(self) -> Any:
        if self.settings["TURNED"]:
            yield self.request("a", n=2)
        yield self.request("a", n=1)
        stats = self.crawler.stats
        await moment(self, "one", when=lambda: stats.get_value("item_scraped_count"))


class Gate(Base):
    """Asks for the start page anew with a cookie."""

    name = "gate"

    def parse(self, response: Any, n: int = 0, at: str = "") -> Any:
        if "Cookie" in response.request.headers:
            yield from super().parse(response)
        yield Request(response.url, cookies={"age": "18"})


class LateItems(Listens, Base):
    """If it is limited, its items come while it closes, and when it has closed."""

    name = "late items"
    custom_settings = {"ITEM_PIPELINES": {"spiders.starting.Slow": 100}}

    async def start(self) -> Any:
        self.limited = bool(self.settings.getint("CLOSESPIDER_PAGECOUNT"))
        self.closing, self.begun, self.closed, self.over = (
            asyncio.Event() for _ in range(4)
        )
        yield self.request(self.settings["PAGE"])
        if self.limited:
            await self.closing.wait()
        yield {"page": "", "n": 1}
        yield {"page": "", "n": 2}
        if self.limited:
            await self.closed.wait()
        yield {"page": "", "n": 3}
        self.over.set()

    async def spider_closed(self) -> None:
        self.closed.set()
        await self.over.wait()


class Slow(OfCrawler):
    """A pipeline in which items wait until the crawl has closed, if it is limited."""

    @property
    def spider(self) -> Any:
        return self.crawler.spider

    async def process_item(self, item: Any) -> Any:
        self.spider.begun.set()
        if self.spider.limited and item["n"]:
            await self.spider.closed.wait()
            if item["n"] == 2:
                raise DropItem("as the test says")
        return item

    async def close_spider(self) -> None:
        self.spider.begun.clear()
        self.spider.closing.set()
        if self.spider.limited:
            await self.spider.begun.wait()
