"""Addon: everything on, with one line in settings.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.extensions import feedexport
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name

from bloomdupe.errors import BloomDupeError
from bloomdupe.feeds import FeedExporter
from bloomdupe.job import Job
from bloomdupe.link_filter import ORDER, LinkFilter

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from typing_extensions import Self

__all__ = ["Addon"]


class Addon:
    """``ADDONS = {"bloomdupe.Addon": 500}``.

    Sets ``DUPEFILTER_CLASS`` and ``SCHEDULER``, unless the project, the spider or
    the command line set them themselves; puts the link filter next to the spider,
    unless it is in ``SPIDER_MIDDLEWARES`` already, and our feed exporter in the place
    of Scrapy's. Settings that cannot be used, and a JOBDIR that belongs to another
    crawl, are refused here, before the crawl begins: later, Scrapy would overwrite
    ``spider.state`` in it while it stops.
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
        _replace(settings, feedexport.FeedExporter, FeedExporter)
        _add_link_filter(settings)
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


def _replace(settings: BaseSettings, theirs: type, ours: type) -> None:
    """Put an extension in the place of one of Scrapy's, unless that is switched off."""
    given = settings.getdict("EXTENSIONS")
    names = {
        name: order
        for extensions in (settings.getdict("EXTENSIONS_BASE"), given)
        for name, order in extensions.items()
        if load_object(name) is theirs
    }
    if not names or None in names.values():
        return
    *_, order = names.values()
    settings.set(
        "EXTENSIONS",
        # Under the very names that are there: older versions of Scrapy compare these.
        {**given, **dict.fromkeys(names), global_object_name(ours): order},
        priority=settings.getpriority("EXTENSIONS") or "addon",
    )


def _add_link_filter(settings: BaseSettings) -> None:
    name = "SPIDER_MIDDLEWARES"
    middlewares = settings.getdict(name)
    if LinkFilter not in map(load_object, middlewares):
        middlewares["bloomdupe.LinkFilter"] = ORDER
        settings.set(name, middlewares, settings.getpriority(name) or 0)
