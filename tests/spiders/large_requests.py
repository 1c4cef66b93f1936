"""Spiders that yield 200 MB of requests from one page."""

from __future__ import annotations

import os
import resource
from typing import Any

from scrapy import Spider, signals


class Large(Spider):
    name = "large"
    more: dict[str, Any] = {}

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Any:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.opened, signals.spider_opened)
        crawler.signals.connect(spider.closed_, signals.spider_closed)
        return spider

    def most(self) -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

    def opened(self) -> None:
        self.before = self.most()

    def closed_(self) -> None:
        self.crawler.stats.set_value("grown", self.most() - self.before)

    def requests(self, response: Any) -> Any:
        for number in range(1_000):
            meta = {"text": os.urandom(100_000).hex(), **self.more}
            yield response.follow(f"/{number}", self.leaf, meta=meta)

    def parse(self, response: Any) -> Any:
        yield from self.requests(response)

    def leaf(self, response: Any) -> None:
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
