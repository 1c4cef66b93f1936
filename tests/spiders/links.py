"""Spiders with many links, and components of Scrapy that change or drop links."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from hashlib import sha1
from typing import Any

from scrapy import Request, Spider
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule
from scrapy.utils.request import fingerprint
from support.components import OfCrawler

from bloomdupe import LinkFilter
from spiders.follow import Follow


def hrefs(response: Response) -> list[str]:
    return response.css("a::attr(href)").getall()


class Offsite(Follow):
    allowed_domains = ["elsewhere.example"]


class ByRules(CrawlSpider):
    name = "byrules"

    rules = (Rule(LinkExtractor(unique=False)),)


class Kinds(Spider):
    """Requests that differ in more than their URL, or only seem to."""

    name = "kinds"

    def parse(self, response: Response) -> Iterator[Any]:
        for href in hrefs(response):
            url = response.urljoin(href)
            number = len(href) % 3
            yield Request(url)
            yield Request(url, method="HEAD", callback=self.nothing)
            yield Request(url, method="POST", body=f"n={number}", callback=self.nothing)
            yield Request(url, body=f"n={number}", callback=self.nothing)
            yield Request(url, headers={"X-Kind": "1"}, cb_kwargs={"a": 1})
            yield Request(f"{url}#part-{number}", meta={"verbatim_url": True})
        if response.meta["depth"] == 0:
            yield Request(response.url, dont_filter=True, callback=self.nothing)

    def nothing(self, response: Response) -> None:
        pass


class PathFingerprinter:
    def fingerprint(self, request: Request) -> bytes:
        url = request.url.partition("?")[0]
        return sha1(url.encode(), usedforsecurity=False).digest()


class LowerCaseFingerprinter:
    """Knows a fingerprint early, and says so."""

    bloomdupe_early = True

    def fingerprint(self, request: Request) -> bytes:
        path, dot, fragment = request.url.partition("#")
        return fingerprint(request.replace(url=path.lower() + dot + fragment))


class Rewrite:
    """A spider middleware that sends links to the start page somewhere else."""

    async def process_spider_output(
        self, response: Response, result: Any, **_: Any
    ) -> AsyncIterator[Any]:
        async for output in result:
            yield self.rewritten(output, response)

    def rewritten(self, output: Any, response: Response) -> Any:
        if isinstance(output, Request) and output.url.endswith("/0.html"):
            name = response.url.rpartition("/")[2].partition(".")[0]
            return output.replace(url=f"{output.url}?from={name}")
        return output


class Listener(OfCrawler):
    """An extension that ignores some requests when they are scheduled."""

    def request_scheduled(self, request: Request) -> None:
        self.crawler.stats.inc_value("heard")
        if request.url.endswith("2.html"):
            raise IgnoreRequest("by the listener")


class Reckless(LinkFilter):
    """A control: it ignores the components between itself and the scheduler."""

    def _obstacle(self) -> None:
        return None
