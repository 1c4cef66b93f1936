"""Inline requests: a callback downloads other pages, and waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy
from common import SITE, download, item
from scrapy.http import Response
from support.stops import moment
from table import idiom


@idiom(asks=1)
class Inline(scrapy.Spider):
    """A page of details for each page of a tree, in the same item."""

    name = "inline"
    start_urls = [SITE + "/0"]

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        url = f"{SITE}/detail/{response.url.rpartition('/')[2]}"
        detail = await download(self.crawler, scrapy.Request(url))
        yield item(response, len(detail.text))
        for request in response.follow_all(css="a"):
            yield request


@idiom(asks=3)
class Gathered(scrapy.Spider):
    """Several at a time."""

    name = "inline_gathered"
    start_urls = [SITE + "/chain/0"]

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        number = int(response.url.rpartition("/")[2])
        requests = [scrapy.Request(f"{SITE}/detail/{number}{n}") for n in range(3)]
        details = await asyncio.gather(*(download(self.crawler, r) for r in requests))
        yield item(response, len(details))
        for request in response.follow_all(css="a"):
            yield request


# Scrapy logs a KeyError for it, but goes on.
@idiom(moments=("again",), asks=1, raises=True)
class Again(scrapy.Spider):
    """A callback downloads its own request once more, and works on."""

    name = "inline_again"
    start_urls = [SITE + "/star"]

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        yield item(response, "first")
        assert response.request is not None
        await download(self.crawler, response.request)
        await moment(self, "again")
        yield item(response, "second")
        yield response.follow("/detail/1", self.parse_detail)

    def parse_detail(self, response: Response) -> Iterator[Any]:
        yield item(response)


@idiom(asks=2)
class Fails(scrapy.Spider):
    """Inline requests that fail, and are retried."""

    name = "inline_fails"
    start_urls = [SITE + "/chain/0"]

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        number = int(response.url.rpartition("/")[2])
        kind = ("flaky", "missing", "moved")[number % 3]
        found = await download(self.crawler, scrapy.Request(f"{SITE}/{kind}/{number}"))
        yield item(response, found.status)
        for request in response.follow_all(css="a"):
            yield request
