"""A spider with items and requests of all kinds: of start(), in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response


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
