"""Spiders that follow links, of many tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from threading import Event
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.utils.request import RequestFingerprinter
from support.components import Listens


class Follow(Spider):
    """Has no items."""

    name = "follow"

    def parse(self, response: Response) -> Any:
        yield from response.follow_all(css="a")


class PutsOut(Follow):
    """Puts out each page, and follows every link."""

    name = "puts_out"

    def parse(self, response: Response) -> Any:
        yield {"page": response.url.rpartition("/")[2]}
        yield from response.follow_all(css="a")


class Unstorable(Follow):
    """Its requests below the first page have a value that cannot be stored."""

    name = "unstorable"

    def parse(self, response: Response) -> Any:
        value: Any = lambda: None  # noqa: E731 - a lambda is the point
        for request in response.follow_all(css="a"):
            yield request.replace(meta={"value": value})


class Mixed(Unstorable):
    """One of these requests can be stored, and has ``dont_filter``."""

    name = "mixed"

    def parse(self, response: Response) -> Any:
        for request in super().parse(response):
            is_c = request.url.endswith("/c")
            yield request.replace(meta={}, dont_filter=True) if is_c else request


class Rounds(PutsOut):
    """Follows links; has an item for each page, and one for ``start()``."""

    name = "rounds"

    async def start(self) -> AsyncIterator[Any]:
        base = self.start_urls[0]
        yield Request(f"{base}a")
        yield Request(f"{base}a")  # a duplicate
        yield Request(f"{base}b", dont_filter=True)
        yield {"page": "start"}


class LogsIn(PutsOut):
    """Posts a form, and makes each request by a copy of the one before."""

    name = "logs in"

    async def start(self) -> AsyncIterator[Any]:
        yield Request(f"{self.start_urls[0]}login", self.post)

    def post(self, response: Any) -> Any:
        yield response.request.replace(method="POST", callback=self.parse)

    def parse(self, response: Any) -> Any:
        yield {"page": response.url.rpartition("/")[2]}
        for link in response.css("a::attr(href)").getall():
            url = response.urljoin(link)
            yield response.request.replace(url=url, method="GET")


class Hang(Follow):
    """Hangs in the callback of /b, and with it the reactor."""

    name = "hang"

    def parse(self, response: Response) -> Any:
        if response.url.endswith("/b"):
            self.logger.info("it hangs")
            Event().wait()
        yield from super().parse(response)


class Stays(Listens, PutsOut):
    """Puts out each page and follows its links; says when it is idle."""

    name = "stays"

    def spider_idle(self) -> None:
        self.logger.info("The spider is idle")

    def other(self, response: Any) -> Any:
        yield {"other": response.url.rpartition("/")[2]}


class Site(Spider):
    """Its requests have priorities."""

    name = "site"

    def parse(self, response: Any) -> Any:
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, priority=len(link) % 3)


class Everything(Spider):
    """Each page has an item; links with an ``m`` cannot be stored."""

    name = "everything"
    custom_settings = {"COOKIES_ENABLED": False}

    async def start(self) -> AsyncIterator[Any]:
        yield {"item": "of start()"}
        for url in self.start_urls:
            yield self.request(url)

    def request(self, url: str) -> Request:
        if "m" in url.rpartition("/")[2]:
            return Request(url, lambda response, **_: self.parse(response))
        return Request(url, self.parse)

    def parse(self, response: Response) -> Any:
        yield {"item": response.url}
        for href in response.css("a::attr(href)").getall():
            yield self.request(response.urljoin(href))


class Forced(Follow):
    """Asks for the page /a whether it is seen or not."""

    name = "forced"

    def parse(self, response: Any) -> Any:
        yield response.follow("/a", self.leave, dont_filter=True)

    def leave(self, response: Any) -> None:
        """End there."""


class OfPlainRequests(RequestFingerprinter):
    """As that of scrapy-poet, which knows no other requests in ``scrapy shell``."""

    def fingerprint(self, request: Request) -> bytes:
        assert not request.dont_filter or request.meta.get("is_start_request")
        return super().fingerprint(request)
