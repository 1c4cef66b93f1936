"""A start page is asked for once more, to do something else with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from scrapy import FormRequest, Request, Spider
from scrapy.http import Response
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule
from support.counters import PerRun
from support.stops import moment, pause


def name_of(response: Response) -> dict[str, str]:
    return {"page": response.url.rpartition("/")[2]}


class Login(Spider):
    """The page behind the form is the start page, with one callback for both."""

    name = "login"
    forms = PerRun(0)

    def parse(self, response: Response) -> Iterator[Any]:
        self.forms += 1
        if self.forms == 1:
            yield FormRequest(response.urljoin("/login"), formdata={"user": "me"})
            return
        yield {"page": "private"}
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, self.parse_page)

    def parse_page(self, response: Response) -> Iterator[Any]:
        yield name_of(response)
        yield response.follow("/", self.parse_home)
        yield response.follow("/")

    def parse_home(self, _: Response) -> Iterator[Any]:
        yield {"page": "home"}


class Again(Spider):
    name = "again"

    def parse(self, response: Response) -> Iterator[Any]:
        yield Request(response.url, self.second)
        yield Request(response.url, self.second)
        yield Request(response.url, self.third)

    def second(self, _: Response) -> Iterator[Any]:
        yield {"page": "second"}

    third = second


def counted(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a callback without ``functools.wraps``: all have the name of this."""

    def wrapper(self: Spider, response: Response) -> Any:
        return callback(self, response)

    return wrapper


class Decorated(Again):
    name = "decorated"
    parse = counted(Again.parse)
    second = counted(Again.second)
    third = second

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.start_urls[0], self.parse, dont_filter=True)


class Parts(Spider):
    """Two classes beside the spider have a method of the same name."""

    name = "parts"

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.start_urls[0], Lists().read, dont_filter=True)


class Lists:
    def read(self, response: Response) -> Iterator[Any]:
        yield {"page": "list"}
        yield Request(response.url, Details().read)


class Details:
    def read(self, _: Response) -> Iterator[Any]:
        yield {"page": "details"}


class AgainLater(Again):
    """Another worker has the start page before its own ``start()`` yields it."""

    name = "again"

    async def start(self) -> AsyncIterator[Any]:
        while not Path("begin").exists():
            await pause(0.02)
        async for request in super().start():
            yield request


class Rules(CrawlSpider):
    name = "rules"
    rules = (Rule(LinkExtractor(), callback="parse_page", follow=True),)

    def parse_page(self, response: Response) -> Iterator[Any]:
        yield name_of(response)


class Killed(Spider):
    name = "killed"
    seconds = PerRun(0)

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        yield Request(response.url, self.second)
        await moment(self, "second is done", when=lambda: self.seconds > 0, alone=True)

    def second(self, _: Response) -> Iterator[Any]:
        yield {"page": "second"}
        self.seconds += 1


class Back(Spider):
    """Each page has a link back to the start page."""

    name = "back"

    def parse(self, response: Response) -> Iterator[Any]:
        yield name_of(response)
        yield from response.follow_all(css="a")


class LateStart(Spider):
    """With ``LATE``, ``start()`` yields its page after the login has led back to it."""

    name = "late_start"

    async def start(self) -> AsyncIterator[Any]:
        stats = self.crawler.stats
        assert stats is not None
        counts = ("scheduler/enqueued", "dupefilter/filtered")
        while self.settings.getbool("LATE") and not any(map(stats.get_value, counts)):
            await pause(0.01)
        yield Request(self.start_urls[0], dont_filter=True)

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        if response.meta["depth"]:
            yield {"page": "private"}
            return
        yield FormRequest(response.urljoin("/login"), formdata={"user": "me"})
        await moment(self, "asked")


class Waits(Back):
    """``start()`` goes on until the last link to its page has been decided on."""

    name = "waits"

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.start_urls[0])
        stats = self.crawler.stats
        assert stats is not None
        while not (
            stats.get_value("dupefilter/filtered", 0) > 1
            or stats.get_value("scheduler/enqueued", 0) > 2
        ):
            await pause(0.01)

    def parse(self, response: Response) -> Iterator[Any]:
        yield name_of(response)
        yield Request(response.url, self.second)
        yield Request(response.url, self.child, dont_filter=True)

    def second(self, _: Response) -> Iterator[Any]:
        yield {"page": "second"}

    def child(self, response: Response) -> Iterator[Any]:
        yield {"page": "child"}
        yield Request(response.url, self.second)
