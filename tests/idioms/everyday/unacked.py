"""Children that differ in each run, of pages that are stopped before they count.

Nothing tells a child from the one that its page has yielded in the run before: only
the page decides whether a child counts.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy
from common import SITE, Pages, item, once, path_of
from scrapy import Request
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.http import Response
from support.components import Listens, OfCrawler
from support.counters import PerRun
from support.stops import durable, moment, pause
from table import idiom

DETAILS = 5


def at_random() -> str:
    return f"{random.getrandbits(64):x}"


def any_order() -> list[int]:
    """Return the numbers of all details, in another order each time."""
    return random.sample(range(DETAILS), DETAILS)


class Family(Pages):
    """Pages with volatile children, which are asked for elsewhere."""

    done = PerRun(0)
    """Children whose callbacks have ended."""

    def child(self, response: Response, **_: Any) -> Iterator[Any]:
        yield item(response)
        self.done += 1


@idiom(moments=("first",), asks=2)
class RetryElsewhere(scrapy.Spider):
    """A callback asks again at another URL, beside its item and a child."""

    handle_httpstatus_list = [404]
    start_urls = [f"{SITE}/missing/{number}" for number in range(DETAILS)]
    elsewhere = PerRun(0)

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        number = response.url.rpartition("/")[2]
        if response.status != 404:
            yield item(response)
            self.elsewhere += 1
            return
        assert response.request is not None
        other = response.request.replace(url=f"{SITE}/detail/{number}")
        other.meta["token"] = at_random()
        yield get_retry_request(other, spider=self, reason="elsewhere")
        await moment(self, "first", lambda: self.elsewhere > 0)
        yield response.follow(f"/detail/1{number}", meta={"token": at_random()})
        yield item(response, "missing")


class Asks(OfCrawler):
    """A pipeline that asks for two pages for each item that is no child's."""

    async def process_item(self, item: Any, *_: Any) -> Any:
        engine: Any = self.crawler.engine
        spider: Any = self.crawler.spider
        if "/detail/" not in item["page"]:
            for name in ("a", "b"):
                url = f"{SITE}/detail/{item['part']}?{name}"
                meta = {"token": at_random()}
                request = Request(url, spider.child, meta=meta, dont_filter=True)
                engine.crawl(request)
                await pause(0.01)
        return item


@idiom(item_pipelines={Asks: 100}, moments=("asked",), asks=2 * DETAILS)
class CrawlInPipeline(Family):
    """A pipeline calls engine.crawl() for items of pages and of start()."""

    async def start(self) -> AsyncIterator[Any]:
        yield {"page": "start", "part": DETAILS}
        yield Request(SITE + "/star", dont_filter=True)

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        for number in any_order():
            yield item(response, number)
        await moment(self, "asked", lambda: self.done > 2)


@idiom(moments=("asked",), asks=3)
class CrawlInSignals(Listens, Family):
    """Receivers of signals call engine.crawl() for a page and for its item."""

    start_urls = [SITE + "/star", SITE + "/0"]

    def headers_received(self, request: Request) -> None:
        self.ask(request.url, "headers")

    def response_received(self, request: Request) -> None:
        self.ask(request.url, "response")

    def item_scraped(self, item: Any) -> None:
        self.ask(SITE + item["page"], "item")

    def ask(self, url: str, why: str) -> None:
        if "/detail/" in url:
            return
        engine: Any = self.crawler.engine
        meta = {"token": at_random()}
        child = f"{SITE}/detail/1?{path_of(url)}-{why}"
        engine.crawl(Request(child, self.child, meta=meta, dont_filter=True))

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        yield item(response)
        await moment(self, "asked", lambda: self.done >= 3)


# Callbacks that wait for what others do

PARTS = tuple(f"/{path}" for path in ("chain/3", "detail/1", "detail/2", "star"))


@idiom(moments=("all are past",), asks=2, waits=True)
class WaitsForOthers(scrapy.Spider):
    """Callbacks wait for a child, a grandchild, start() and another page."""

    children = PerRun[set[str]](set())
    """What they have done; they come again with their page."""

    @property
    def past(self) -> dict[str, bool]:
        """What else is past, in any run: a page that is done does not come again."""
        state: dict[str, bool] = self.__dict__.setdefault("state", {})
        return state

    async def start(self) -> AsyncIterator[Any]:
        yield Request(SITE + "/star", dont_filter=True)
        yield Request(SITE + "/chain/3", self.other, dont_filter=True)
        await self.until("page began")
        self.past["start"] = True

    async def until(self, event: str) -> None:
        while event not in self.past.keys() | self.children:
            await pause(0.01)

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        self.past["page began"] = True
        yield response.follow("/detail/1", self.child, dont_filter=True)
        for event in ("start", "other", "child", "grandchild"):
            await self.until(event)
        await moment(self, "all are past")
        yield item(response)

    async def other(self, response: Response) -> AsyncIterator[Any]:
        await self.until("page began")
        yield item(response)
        self.past["other"] = True

    async def child(self, response: Response) -> AsyncIterator[Any]:
        meta = {"token": at_random()}
        yield response.follow("/detail/2", self.grandchild, meta=meta, dont_filter=True)
        self.children.add("child")
        await self.until("grandchild")
        yield item(response)

    async def grandchild(self, response: Response) -> AsyncIterator[Any]:
        await self.until("other")
        await self.interrupted()
        yield item(response)
        self.children.add("grandchild")

    async def interrupted(self) -> None:
        """Press Ctrl-C, perhaps."""


@idiom(items=PARTS, repeats=None, waits=True)
class InterruptedWaiting(WaitsForOthers):
    """The same, and Ctrl-C comes when each of them is in flight."""

    async def interrupted(self) -> None:
        if once("interrupted"):
            os.kill(os.getpid(), signal.SIGINT)


@idiom(items=PARTS, repeats=None, waits=True)
class InterruptedTwice(WaitsForOthers):
    """The same, and Ctrl-C comes twice: a callback waits for what never comes."""

    async def interrupted(self) -> None:
        await durable(self)  # or it may be over before its second commit
        if once("interrupted"):
            os.kill(os.getpid(), signal.SIGINT)
            engine: Any = self.crawler.engine
            while not engine._slot.closing:
                await pause(0.01)
            os.kill(os.getpid(), signal.SIGINT)
            await self.until("never")
