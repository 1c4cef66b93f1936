"""Spiders with callbacks that are no methods."""

from __future__ import annotations

from asyncio import Event
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.exceptions import CloseSpider
from scrapy.http import Response, TextResponse
from support.counters import PerRun
from typing_extensions import Self

from bloomdupe.crawl.leases.carried import CarriedValues
from bloomdupe.crawl.requests.callbacks import Callbacks
from bloomdupe.errors import UnserializableError
from spiders.idle import HearsIdle


class Tree(Spider):
    """Follows all links."""

    def item(self, response: Response, steps: int) -> dict[str, Any]:
        assert steps >= 0
        return {"page": int(response.url.rpartition("/")[2])}


class Lambdas(Tree):
    """Each page leads on with a lambda."""

    name = "lambdas"

    def parse(self, response: Response, steps: int = 0) -> Iterator[Any]:
        yield self.item(response, steps)
        for link in response.css("a"):
            yield response.follow(link, lambda r: self.parse(r, steps + 1))


class Closures(Tree):
    """Each page leads on with a lambda that has its response: it is not stored."""

    name = "closures"

    def parse(
        self, response: Response, before: Response | None = None
    ) -> Iterator[Any]:
        yield self.item(response, 0 if before is None else len(before.body))
        for link in response.css("a"):
            yield response.follow(link, lambda r: self.parse(r, response))


class TwoWays(Spider):
    """Two pages lead to the same page: with a closure, and with a method."""

    name = "two_ways"

    def parse(self, response: Response) -> Iterator[Any]:
        callback = self.meet
        if response.url.endswith("closure"):
            callback = partial(self.meet, before=response)
        yield response.follow("/page", callback)

    def meet(self, response: Response, before: Any = None) -> Iterator[Any]:
        yield response.follow("/child", self.found, dont_filter=True)
        yield response.follow("/memory", lambda r: self.found(r, response))

    def found(self, response: Response, before: Any = None) -> Iterator[Any]:
        yield {"page": response.url.rpartition("/")[2]}


class MeetsAtStart(TwoWays):
    """Now ``start()`` leads to that page."""

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.start_urls[0].replace("closure", "page"), self.meet)
        async for request in super().start():
            yield request


class MeetsByHand(TwoWays):
    """Now no page and no output of ``start()`` leads to that page."""

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **options: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **options)
        crawler.signals.connect(spider.meet_by_hand, signals.engine_started)
        return spider

    def meet_by_hand(self) -> None:
        url = self.start_urls[0].replace("closure", "page")
        engine: Any = self.crawler.engine
        engine.crawl(Request(url, self.meet))


class Kept:
    """An object that no request is stored with."""


class OnceMore(Spider):
    """A request in memory asks for its own page once more, without its object."""

    name = "once_more"

    def parse(self, response: Response) -> Iterator[Any]:
        yield response.follow("/page", self.again, meta={"object": Kept()})
        yield response.follow("/memory", lambda r: self.found(r, response))

    def again(self, response: Response) -> Iterator[Any]:
        if "object" in response.meta:
            yield response.follow(response.url, self.again, dont_filter=True)
        else:
            yield from self.found(response)

    def found(self, response: Response, before: Any = None) -> Iterator[Any]:
        yield {"page": response.url.rpartition("/")[2]}


class AgainBeside(OnceMore):
    """A page asks for itself once more, and leads to a request in memory."""

    name = "again_beside"

    def parse(self, response: Response) -> Iterator[Any]:
        if "again" in response.meta:
            yield {"page": "again"}
            return
        again = {"again": True}
        yield response.follow(response.url, self.parse, dont_filter=True, meta=again)
        yield response.follow("/memory", lambda r: self.found(r, response))


class Retries(OnceMore):
    """A request in memory is retried by its callback, after it has yielded a child."""

    name = "retries"

    def parse(self, response: Response) -> Iterator[Any]:
        yield response.follow("/page", self.again, meta={"object": Kept()})

    def again(self, response: Response) -> Iterator[Any]:
        yield response.follow("/child", self.found, dont_filter=True)
        if "retry_times" not in response.meta:
            yield get_retry_request(response.request, spider=self, reason="again")


class ByHand(OnceMore, HearsIdle):
    """A request in memory that no page has yielded leads to another, and that on."""

    name = "by_hand"
    led = PerRun(False)

    def parse(self, response: Response) -> Iterator[Any]:
        yield from ()

    def idle(self) -> None:
        if not self.led:
            self.led = True
            url = f"{self.start_urls[0]}page"
            page = Request(url, lambda response: self.lead(response, response))
            assert self.crawler.engine is not None
            self.crawler.engine.crawl(page)

    def lead(self, response: Response, before: Response) -> Iterator[Any]:
        yield response.follow("/memory", lambda r: self.end(r, before))

    def end(self, response: Response, before: Response) -> Iterator[Any]:
        assert before.url != response.url
        yield {"page": "memory"}
        yield response.follow("/child", self.found, dont_filter=True)


class Stops(Spider):
    """A request in memory of ``start()`` ends the crawl, after its first item."""

    name = "stops"
    carried: Any = TextResponse("http://a.example/")

    async def start(self) -> AsyncIterator[Request]:
        _, page = self.start_urls
        yield self.ask(page)
        await Event().wait()

    def ask(self, url: str) -> Request:
        return Request(url, partial(self.found, before=self.carried))

    def found(self, response: Response, before: Any) -> Iterator[Any]:
        yield {"page": "first"}
        raise CloseSpider


class StopsWithObject(Stops):
    carried = Kept()


class StopsNoMore(Stops):
    """Another page leads to the same request before ``start()`` does."""

    async def start(self) -> AsyncIterator[Request]:
        root, page = self.start_urls
        self.led = Event()
        yield Request(root)
        await self.led.wait()
        yield self.ask(page)

    def parse(self, response: Response) -> Iterator[Request]:
        _, page = self.start_urls
        yield self.ask(page)
        self.led.set()

    def found(self, response: Response, before: Any) -> Iterator[Any]:
        yield {"page": "first"}
        yield {"page": "second"}


class StopsNoMoreWithObject(StopsNoMore):
    carried = Kept()


def store_methods_only() -> None:
    """Store requests as an earlier version does."""

    def refuse(self: Callbacks, function: Any) -> Any:
        raise UnserializableError(f"{function} is not a method of {self.spider}")

    Callbacks.reference_to = refuse  # type: ignore[method-assign]
    CarriedValues.of = lambda *_: None  # type: ignore[assignment, method-assign]


def change_lambda() -> None:
    """Let the spider have the code of a later day."""

    def parse(self: Lambdas, response: Response, steps: int = 0) -> Iterator[Any]:
        yield self.item(response, steps)
        for link in response.css("a"):
            yield response.follow(link, lambda r: self.parse(r, steps + 2))

    Lambdas.parse = parse  # type: ignore[method-assign]
