"""Inline requests: a callback downloads other pages, and waits for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from common import Pages, download, item
from scrapy.http import Response
from support.stops import moment
from table import idiom


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
