"""Items of several kinds, of which the first has fewer fields; and a page in memory."""

from __future__ import annotations

from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request, Spider

from spiders.feeds import Shop, Special


class Uneven(Shop):
    """A page has an item with two fields, another kind of item, and items with more."""

    name = "uneven"

    async def parse(self, response: Any) -> Any:
        path = urlsplit(response.url).path[1:]
        yield {"path": path, "number": 0}
        yield Special(path)
        async for output in super().parse(response):
            yield output


class InMemory(Spider):
    """Redis knows nothing of its last page."""

    name = "in memory"

    async def start(self) -> Any:
        yield Request(f"{self.start_urls[0]}first")
        yield Request(f"{self.start_urls[0]}last", meta={"lock": Lock()})

    def parse(self, response: Any) -> Any:
        yield {"page": urlsplit(response.url).path}
