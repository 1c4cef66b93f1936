"""Addon: everything on, with one line in settings.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.job import Job

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from typing_extensions import Self

__all__ = ["Addon"]


class Addon:
    """``ADDONS = {"bloomdupe.Addon": 500}``.

    Sets ``DUPEFILTER_CLASS``, unless the project, the spider or the command line
    set it themselves. Settings that cannot be used, and a JOBDIR that belongs to
    another crawl, are refused here, before the crawl begins: later, Scrapy would
    overwrite ``spider.state`` in it while it stops.
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
        if self._crawler.spider is not None:
            Job.of(self._crawler.spider, settings).check_store()
