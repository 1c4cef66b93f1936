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


class InlineTree(Tree):
    """Each page has an item that it must download something for."""

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        yield item(response, await self.part(int(response.url.rpartition("/")[2])))
        for request in response.follow_all(css="a"):
            yield request

    async def part(self, number: int) -> object:
        raise NotImplementedError

    async def download(self, path: str) -> Response:
        return await download(self.crawler, scrapy.Request(f"{SITE}/{path}"))


@idiom(asks=3)
class InlineGathered(InlineTree):
    """Several pages of details for each page of a tree, at a time."""

    async def part(self, number: int) -> object:
        paths = [f"detail/{number}{n}" for n in range(3)]
        return len(await asyncio.gather(*map(self.download, paths)))


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


@idiom(asks=2)
class InlineFails(InlineTree):
    """Inline requests that fail, and are retried."""

    start_urls = [SITE + "/chain/0"]

    async def part(self, number: int) -> object:
        kind = ("flaky", "missing", "moved")[number % 3]
        return (await self.download(f"{kind}/{number}")).status
