"""A spider that hears when the crawl has nothing to do."""

from __future__ import annotations

from typing import Any

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from typing_extensions import Self


class HearsIdle(Spider):
    """Its method ``idle`` is called at the signal ``spider_idle``."""

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.idle, signals.spider_idle)
        return spider

    def idle(self) -> None:
        raise NotImplementedError
