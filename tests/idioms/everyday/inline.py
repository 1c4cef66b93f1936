"""Inline requests: a callback downloads other pages, and waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import scrapy
from common import SITE, Pages, Tree, download, item
from scrapy.http import Response
from support.stops import moment
from table import idiom


@idiom(asks=6)
class Inline(Tree):
    """Inline requests for each page of a chain, at a time; some fail, or lead on."""

    start_urls = [SITE + "/chain/0"]

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        number = response.url.rpartition("/")[2]
        kinds = ("detail", "flaky", "missing", "moved")
        pages = [scrapy.Request(f"{SITE}/{kind}/{number}") for kind in kinds]
        found = await asyncio.gather(*(download(self.crawler, one) for one in pages))
        yield item(response, " ".join(str(one.status) for one in found))
        for request in response.follow_all(css="a"):
            yield request


# Scrapy logs a KeyError for it, but goes on.
@idiom(moments=("again",), asks=1, raises=True)
class InlineAgain(Pages):
    """A callback downloads its own request once more, and works on."""

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        yield item(response, "first")
        assert response.request is not None
        await download(self.crawler, response.request)
        await moment(self, "again")
        yield item(response, "second")
        yield response.follow("/detail/1", self.page)
