"""Addon: everything on, with one line in settings.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.errors import BloomDupeError
from bloomdupe.job import Job

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from typing_extensions import Self

__all__ = ["Addon"]


class Addon:
    """``ADDONS = {"bloomdupe.Addon": 500}``.

    Sets ``DUPEFILTER_CLASS`` and ``SCHEDULER``, unless the project, the spider or
    the command line set them themselves. Settings that cannot be used, and a JOBDIR
    that belongs to another crawl, are refused here, before the crawl begins: later,
    Scrapy would overwrite ``spider.state`` in it while it stops.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the add-on of a crawl; called by Scrapy."""
        return cls(crawler)

    def update_settings(self, settings: BaseSettings) -> None:
        """Change the settings; called by Scrapy."""
        settings.set("DUPEFILTER_CLASS", "bloomdupe.BloomDupeFilter", "addon")
        settings.set("SCHEDULER", "bloomdupe.FrontierScheduler", "addon")
        spider = self._crawler.spider
        if spider is None:
            return
        try:
            Job.of(spider, settings).check_store()
        except BloomDupeError:
            # Without this, `scrapy crawl` exits with 0 before Scrapy 2.19: it takes
            # a crawler that has its spider for one that started.
            self._crawler.spider = None
            raise
