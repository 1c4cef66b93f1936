"""Spiders of crawls that stay open."""

from __future__ import annotations

from typing import Any

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from typing_extensions import Self


class Stays(Spider):
    """Puts out each page and follows its links; says when it is idle."""

    name = "stays"

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **options: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **options)
        crawler.signals.connect(spider.is_idle, signals.spider_idle)
        return spider

    def is_idle(self) -> None:
        self.logger.info("The spider is idle")

    def parse(self, response: Any) -> Any:
        yield {"page": response.url.rpartition("/")[2]}
        yield from response.follow_all(css="a")

    def other(self, response: Any) -> Any:
        yield {"other": response.url.rpartition("/")[2]}
