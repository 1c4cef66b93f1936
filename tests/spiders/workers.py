"""Spiders of the workers that share a crawl."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.exceptions import CloseSpider
from scrapy.http import Response
from scrapy.utils.request import RequestFingerprinter

HOSTS = 7
"""On which the pages of one site seem to be: slots of the downloader."""


def on(number: int) -> dict[str, str]:
    """Return the meta of a request for a page."""
    return {"download_slot": str(number % HOSTS)}


class InMemory:
    """A callback that cannot be stored: an object."""

    def __init__(self, parse: Any) -> None:
        self.parse = parse

    def __call__(self, response: Response) -> Any:
        return self.parse(response)


class All(Spider):
    """All pages of a site, as if they were on seven hosts."""

    name = "all"

    def number(self, response: Response) -> int:
        return int(response.url.rpartition("/")[2].rpartition("?")[2])

    def in_memory(self, parse: Any) -> Any:
        """Return a callback that cannot be stored."""
        return InMemory(parse)

    def parse(self, response: Response) -> Any:
        yield {"page": self.number(response)}
        for href in response.css("a::attr(href)").getall():
            number = int(href[1:])
            if number < self.settings.getint("PAGES", 1_000):
                yield response.follow(href, meta=on(number))


class Timed(All):
    """Says when the downloader has sent the request for a page."""

    name = "timed"
    custom_settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1}

    @classmethod
    def from_crawler(cls, crawler: Any, *arguments: Any, **options: Any) -> Any:
        spider = super().from_crawler(crawler, *arguments, **options)
        crawler.signals.connect(spider.answered, signals.headers_received)
        return spider

    def answered(self, request: Request) -> None:
        slots = self.crawler.engine.downloader.slots  # type: ignore[union-attr]
        request.meta["asked"] = slots[request.meta["download_slot"]].lastseen

    def parse(self, response: Response) -> Any:
        asked = {"asked": response.meta["asked"]}
        for output in super().parse(response):
            yield output | asked if isinstance(output, dict) else output


class Alone(All):
    """None of its requests can be stored, and they wait for their turn."""

    name = "alone"
    custom_settings = {"DOWNLOAD_DELAY": 0.3, "RANDOMIZE_DOWNLOAD_DELAY": False}

    async def start(self) -> Any:
        for number in range(6):
            url = self.start_urls[0][:-1] + str(number)
            parse = self.in_memory(lambda response: {"page": self.number(response)})
            yield Request(url, parse)


class Other(All):
    """The same by another name."""

    name = "other"


class Closing(All):
    """Ends in the middle."""

    name = "closing"

    def parse(self, response: Response) -> Any:
        pages = self.crawler.stats.get_value("response_received_count")
        if self.settings.getbool("CLOSE") and pages > 9:
            raise CloseSpider("enough")
        yield from super().parse(response)


class Plain(All):
    """Follows all links."""

    name = "plain"

    def parse(self, response: Response) -> Any:
        yield {"page": response.url.rpartition("/")[2]}
        yield from response.follow_all(css="a")


class Before(Plain):
    """Its requests are for a method that no other spider has."""

    def parse(self, response: Response) -> Any:
        yield response.follow("/1", self.old, meta=on(1))
        for number in range(2, 5):
            yield response.follow(f"/{number}", self.leaf, meta=on(number))

    def old(self, response: Response) -> Any:
        del response
        yield {"page": "old"}

    def leaf(self, response: Response) -> Any:
        yield {"page": response.url.rpartition("/")[2]}


class After(Before):
    """The next version."""

    old = None  # type: ignore[assignment]


# The next ones wait for files of their folder.


async def file(name: str) -> None:
    while not Path(name).exists():
        await asyncio.sleep(0.02)


class Fingerprinter(RequestFingerprinter):
    """Fails for some pages until it is mended."""

    def fingerprint(self, request: Request) -> bytes:
        if request.url.endswith("bad") and not Path("mended").exists():
            raise KeyError("no id")
        return super().fingerprint(request)


class Slow:
    """A pipeline that is not through when the page breaks off."""

    async def process_item(self, item: Any) -> Any:
        await asyncio.sleep(0)
        return item


class Pages(All):
    """Twenty pages on hosts of their own."""

    name = "pages"

    async def start(self) -> Any:
        await file("go")
        for n in range(20):
            url = self.start_urls[0] + f"?{n}"
            yield Request(url, meta={"download_slot": f"host{n}"})


class Parked(Pages):
    """One host; requests that cannot be stored are in memory all the time."""

    name = "parked"
    custom_settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1}

    async def start(self) -> Any:
        yield Request(self.start_urls[0])

    def parse(self, response: Response) -> Any:
        for n in range(60):
            yield Request(f"{response.url}?{n}", self.leaf)
        for n in range(60, 100):
            url = f"{response.url}?{n}"
            yield Request(url, self.in_memory(self.leaf), priority=-1)

    def leaf(self, response: Response) -> Any:
        yield {"page": self.number(response)}


class Broken(Pages):
    """Something other than the callback breaks off, on six pages."""

    name = "broken"
    custom_settings = {
        "ITEM_PIPELINES": {Slow: 1},
        "REQUEST_FINGERPRINTER_CLASS": Fingerprinter,
        "SPIDER_MIDDLEWARES": {"bloomdupe.LinkFilter": None},
    }

    def parse(self, response: Response) -> Any:
        yield {"page": self.number(response)}
        yield {"page": self.number(response)}
        if self.number(response) < 6:
            yield Request(response.url + "bad", self.done)
            yield {"after": self.number(response)}

    def done(self, response: Response) -> Any:
        yield {"bad": response.url[-4:]}
