"""Addon: turns everything on, with one line in settings.py."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.extensions import feedexport
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name

from bloomdupe.crawl.preflight import find_job
from bloomdupe.feeds.exporter import FeedExporter
from bloomdupe.feeds.media import CompleteFiles
from bloomdupe.inside_scrapy.faster import Stats
from bloomdupe.links.fast_follow import FastFunctions
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
    pipelines write complete files. Lets Scrapy count, follow links and call middlewares
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
        _replace_feed_exporter(settings)
        _name_feeds(settings)
        add = settings.setdefault_in_component_priority_dict
        add("SPIDER_MIDDLEWARES", LinkFilter, ORDER)
        add("EXTENSIONS", CompleteFiles, 0)
        add("EXTENSIONS", FastFunctions, 0)
        name = "STATS_CLASS"
        if load_object(settings[name]) is MemoryStatsCollector:  # others stay
            priority = settings.getpriority(name) or "addon"
            settings.set(name, global_object_name(Stats), priority)
        find_job(self._crawler, settings)
        settings.set("SCHEDULER", "bloomdupe.FrontierScheduler", "addon")


def _replace_feed_exporter(settings: BaseSettings) -> None:
    """Replace Scrapy's feed exporter with ours, unless it is switched off."""
    extensions = settings.get_component_priority_dict_with_base("EXTENSIONS")
    for name, order in extensions.items():
        if load_object(name) is feedexport.FeedExporter and order is not None:
            change = settings.set_in_component_priority_dict
            change("EXTENSIONS", feedexport.FeedExporter, None)
            change("EXTENSIONS", FeedExporter, order)


def _name_feeds(settings: BaseSettings) -> None:
    """Let the key of a feed that is a relative path be a text.

    Scrapy would make it an absolute path, which differs between workers. A path with a
    colon stays: as a text it would begin with a scheme.
    """
    feeds = settings.getdict("FEEDS")
    names = {
        one: str(one)
        for one in feeds
        if isinstance(one, Path) and not one.is_absolute() and ":" not in str(one)
    }
    named = {names.get(one, one): feeds[one] for one in feeds}
    if names and len(named) == len(feeds):  # else two have one file, and are refused
        settings.set("FEEDS", named, settings.getpriority("FEEDS") or 0)
