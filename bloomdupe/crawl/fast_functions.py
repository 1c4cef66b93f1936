"""FastFunctions lets Scrapy handle links faster, and Stats lets it count faster."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib import parse

from scrapy import signals
from scrapy.statscollectors import MemoryStatsCollector
from w3lib import url as w3lib_url

from bloomdupe.inside_scrapy.faster import URL_MODULES, ReplacedName
from bloomdupe.links.fast_follow import follow, follows_the_same, scrapys_follow
from bloomdupe.links.safe_urls import (
    PROBED_BASE,
    PROBED_LINKS,
    PROBES,
    safe_url_string,
    urljoin,
)

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from typing_extensions import Self


class FastFunctions:
    """An extension: while a crawl runs, Scrapy calls faster functions.

    ``urljoin`` and ``safe_url_string`` take the place of the original functions in
    modules of Scrapy that have imported them, and ``follow`` that of the method of
    responses, for all crawls of the process. The results are the same.
    A name that has been replaced by other code is left alone.
    ``EXTENSIONS = {"bloomdupe.crawl.fast_functions.FastFunctions": None}`` switches it
    off.
    """

    def __init__(self) -> None:
        self._names: list[ReplacedName] = []
        self._replaced: list[ReplacedName] = []
        base, links = PROBED_BASE, PROBED_LINKS
        escape, join = w3lib_url.safe_url_string, parse.urljoin
        escapes = all(escape(url) == url for url in PROBES)
        if escapes:
            self._names.append(
                ReplacedName(URL_MODULES, "safe_url_string", escape, safe_url_string)
            )
        joins = all(join(base, url) == urljoin(base, url) for url in links)
        if joins:
            self._names.append(ReplacedName(URL_MODULES, "urljoin", join, urljoin))
        if escapes and joins and follows_the_same():
            self._names.append(
                ReplacedName(
                    ("scrapy.http.TextResponse",), "follow", scrapys_follow, follow
                )
            )

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the extension of a crawl; called by Scrapy."""
        extension = cls()
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        crawler.signals.connect(extension.spider_closed, signals.spider_closed)
        return extension

    def spider_opened(self) -> None:
        """Let Scrapy call the faster functions."""
        for name in self._names:
            name.replace()
            self._replaced.append(name)

    def spider_closed(self) -> None:
        """Put the original functions back, when no other crawl uses the faster ones.

        Scrapy also closes a spider that it could not open.
        """
        while self._replaced:
            self._replaced.pop().restore()


class Stats(MemoryStatsCollector):
    """Scrapy's stats collector, with its methods as plain attributes.

    Scrapy 2.19 wraps each method, to warn of a deprecated argument, and looks for the
    wrapper at each access to any attribute: of 1.4 µs for a stat, and a page counts
    twenty. Here the same wrappers are looked for once.
    """

    __getattribute__ = object.__getattribute__

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        for name in dir(MemoryStatsCollector):
            if not name.startswith("_"):
                setattr(self, name, super().__getattribute__(name))
