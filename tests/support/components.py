"""Components and spiders that know their crawler, and receive its signals.

A method that has the name of a signal, of Scrapy's or of bloomdupe's, receives it.
"""

from __future__ import annotations

from typing import Any

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from typing_extensions import Self

from bloomdupe import signals as ours

SIGNALS = {**vars(signals), **vars(ours)}


def listen(crawler: Crawler, listener: Any) -> None:
    for name in SIGNALS.keys() & {*dir(listener)}:
        if not name.startswith("_"):
            crawler.signals.connect(getattr(listener, name), SIGNALS[name])


class OfCrawler:
    """A component that knows its crawler."""

    def __init__(self, crawler: Any) -> None:
        self.crawler = crawler
        listen(crawler, self)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)


class Listens(Spider):
    """A spider that receives signals."""

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        listen(crawler, spider)
        return spider
