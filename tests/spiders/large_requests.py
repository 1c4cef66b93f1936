"""Spiders that yield 200 MB of requests from one page."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

from scrapy import Spider, signals


def in_memory() -> int:
    """Return the bytes that the process has, without the pages of mapped files."""
    _, resident, shared, *_ = Path("/proc/self/statm").read_text().split()
    return (int(resident) - int(shared)) * resource.getpagesize()


class Large(Spider):
    name = "large"
    more: dict[str, Any] = {}

    largest = 0

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Any:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.opened, signals.spider_opened)
        crawler.signals.connect(spider.closed_, signals.spider_closed)
        return spider

    def opened(self) -> None:
        self.before = in_memory()

    def look(self) -> None:
        self.largest = max(self.largest, in_memory())

    def closed_(self) -> None:
        self.look()
        grown = (self.largest - self.before) >> 20
        self.crawler.stats.set_value("grown", grown)

    def requests(self, response: Any) -> Any:
        for number in range(1_000):
            self.look()
            meta = {"text": os.urandom(100_000).hex(), **self.more}
            yield response.follow(f"/{number}", self.leaf, meta=meta)

    def parse(self, response: Any) -> Any:
        yield from self.requests(response)

    def leaf(self, response: Any) -> None:
        self.look()
        assert len(response.meta["text"]) == 200_000


class Asynchronous(Large):
    name = "asynchronous"

    async def parse(self, response: Any) -> Any:
        for request in self.requests(response):
            yield request


class Later(Large):
    name = "later"
    more = {"bloomdupe_delay": 0.001}


class Slots(Large):
    name = "slots"

    def requests(self, response: Any) -> Any:
        for number, request in enumerate(super().requests(response)):
            request.meta["download_slot"] = f"slot {number}"
            yield request
