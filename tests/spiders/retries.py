"""Spiders with pages that are tried again."""

from __future__ import annotations

from typing import Any

from scrapy import Request, Spider
from scrapy.downloadermiddlewares.retry import get_retry_request


class Many(Spider):
    name = "many"

    async def start(self) -> Any:
        for number in range(self.settings.getint("PAGES")):
            yield Request(f"{self.start_urls[0]}{number}", errback=self.lost)

    def parse(self, response: Any) -> Any:
        yield {"page": response.url, "tries": response.meta.get("retry_times", 0)}

    def lost(self, failure: Any) -> None:
        self.crawler.stats.inc_value("lost")


class Asks(Spider):
    """A page that asks for patience with status 200, and its children.

    They have a copy of its meta, and are no retries for that.
    """

    name = "asks"

    def parse(self, response: Any) -> Any:
        if response.text == "not yet":
            return get_retry_request(response.request, spider=self, reason="not yet")
        return Request(
            response.urljoin("/child"), self.child, meta=response.meta, dont_filter=True
        )

    def child(self, response: Any) -> Any:
        yield {"page": response.url}
