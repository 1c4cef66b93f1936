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


@idiom(asks=5)
class Gathered(scrapy.Spider):
    """Several at a time, of which one is retried, one fails, and one is redirected."""

    name = "inline_gathered"
    start_urls = [SITE + "/chain/0"]

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        number = int(response.url.rpartition("/")[2])
        kinds = ("flaky", "missing", "moved")
        requests = [scrapy.Request(f"{SITE}/{kind}/{number}") for kind in kinds]
        found = await asyncio.gather(*(download(self.crawler, r) for r in requests))
        yield item(response, " ".join(str(answer.status) for answer in found))
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
