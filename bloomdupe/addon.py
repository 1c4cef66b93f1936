"""Addon: turns everything on, with one line in settings.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.extensions import feedexport
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name

from bloomdupe.crawl.admission import find_job
from bloomdupe.crawl.fast_functions import FastFunctions, Stats
from bloomdupe.feeds.exporter import FeedExporter
from bloomdupe.feeds.media import WholeFiles
from bloomdupe.links.link_filter import ORDER, LinkFilter

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from typing_extensions import Self


class Addon:
    """``ADDONS = {"bloomdupe.Addon": 500}``.

    Sets ``DUPEFILTER_CLASS`` and ``SCHEDULER``, unless the project, the spider or the
    command line set them. Puts the link filter next to the spider, unless it is in
    ``SPIDER_MIDDLEWARES`` already. Replaces Scrapy's feed exporter, and makes its media
    pipelines write whole files. Lets Scrapy count, follow links and call middlewares
    faster. ``%(spider)s`` in ``JOBDIR`` becomes the name of the spider.

    Invalid settings are refused here, and a JOBDIR that belongs to another crawl when
    the scheduler opens it. Commands of Scrapy that only try something out, such as
    ``scrapy check`` and ``scrapy shell``, leave the job alone.
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
        _replace(settings, feedexport.FeedExporter, FeedExporter)
        _add(settings, "SPIDER_MIDDLEWARES", LinkFilter, ORDER)
        _add(settings, "EXTENSIONS", WholeFiles, 0)
        _add(settings, "EXTENSIONS", FastFunctions, 0)
        _count_faster(settings)
        find_job(self._crawler, settings)
        settings.set("SCHEDULER", "bloomdupe.FrontierScheduler", "addon")


def _replace(settings: BaseSettings, theirs: type, ours: type) -> None:
    """Replace an extension of Scrapy's with ours, unless it is switched off."""
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
        # With the names as given: older versions of Scrapy compare the names.
        {**given, **dict.fromkeys(names), global_object_name(ours): order},
        priority=settings.getpriority("EXTENSIONS") or "addon",
    )


def _count_faster(settings: BaseSettings) -> None:
    """Replace Scrapy's stats in memory; leave any other class alone."""
    name = "STATS_CLASS"
    if load_object(settings[name]) is MemoryStatsCollector:
        priority = settings.getpriority(name) or "addon"
        settings.set(name, global_object_name(Stats), priority)


def _add(settings: BaseSettings, name: str, component: type, order: int) -> None:
    """Add a component to a setting, unless it is there already."""
    components = settings.getdict(name)
    if component not in map(load_object, components):
        components[global_object_name(component)] = order
        settings.set(name, components, settings.getpriority(name) or 0)
