"""An extension that pauses its own crawl."""

from __future__ import annotations

from typing import Any

from scrapy.crawler import Crawler
from support.components import OfCrawler


def paused_at(pages: str) -> tuple[str, ...]:
    """Return options of a crawl of the ``site`` spider that pauses for good.

    It does so when the job has so many pages, and goes on writing checkpoints.
    """
    extension = f"{Paused.__module__}.{Paused.__qualname__}"
    return ("-s", f"PAUSED_AT={pages}", "-s", f'EXTENSIONS={{"{extension}": 0}}')


class Paused(OfCrawler):
    """Pauses the engine; ``PAUSED_AT`` says at how many pages of the job."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._limit = crawler.settings.getint("PAUSED_AT")

    def item_scraped(self, spider: Any) -> None:
        if spider.state["pages"] >= self._limit:
            self.crawler.engine.pause()
