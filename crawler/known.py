"""A pipeline for your project that drops known pages and loses none.

A pipeline that drops all items that its own database knows has a trap. It stores an
item as known; then the process is killed before the item's page is done. The page is
fetched again, but its item is known by now, and appears in no output at all. To avoid
this, store the page of each item, too.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.exceptions import DropItem, NotConfigured

from bloomdupe.signals import checkpoint
from crawler.items import Page

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.statscollectors import StatsCollector
    from typing_extensions import Self

__all__ = ["KnownPipeline"]

_CREATE = "CREATE TABLE IF NOT EXISTS known (content PRIMARY KEY, page, crawl, run)"
_FIND = "SELECT page, crawl, run FROM known WHERE content = ?"
_REPLACE = "REPLACE INTO known VALUES (?, ?, ?, ?)"


class KnownPipeline:
    """Drops pages that have the same title and length as a known page.

    ``ITEM_PIPELINES = {"crawler.known.KnownPipeline": 200}``; the setting
    ``KNOWN_FILE`` names the database (``known.sqlite`` by default), which many jobs may
    share, one after the other.

    An item is durable in the database before the checkpoint counts its page as done, so
    no item comes twice. A page that is done is never fetched again in its crawl. So if
    an item is known from this very page and crawl, but not from this run, the page was
    not done, and its item passes: nothing is lost.
    """

    def __init__(self, file: Path, jobdir: Path, stats: StatsCollector) -> None:
        self._file = file
        self._jobdir = jobdir
        self._stats = stats
        self._run = uuid.uuid4().hex
        self._new: dict[str, str] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the pipeline of a crawl."""
        if not crawler.settings["JOBDIR"] or crawler.stats is None:
            raise NotConfigured("JOBDIR must be set")
        file = Path(crawler.settings.get("KNOWN_FILE", "known.sqlite"))
        pipeline = cls(file, Path(crawler.settings["JOBDIR"]), crawler.stats)
        crawler.signals.connect(pipeline.flush, checkpoint)
        return pipeline

    def open_spider(self, _spider: object = None) -> None:
        """Open the database."""
        self._database = sqlite3.connect(self._file)
        # Without it, a commit does not survive a power cut.
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.execute(_CREATE)
        # Each store has a name of its own; a finished job may be crawled anew.
        mark = (self._jobdir / "bloomdupe" / "clean.json").read_text("ascii")
        job = json.loads(mark)["store"]
        self._crawl = f"{job} {self._stats.get_value('bloomdupe/round')}"

    def process_item(self, item: object, _spider: object = None) -> object:
        """Drop a page that is known; raises ``DropItem``."""
        if isinstance(item, Page) and item.title is not None:
            content = f"{item.length} {item.title}"
            if self._is_known(content, item.url):
                raise DropItem(f"known from another page or crawl: {item.url}")
            self._new[content] = item.url
        return item

    def _is_known(self, content: str, page: str) -> bool:
        if content in self._new:
            return True
        found = self._database.execute(_FIND, (content,)).fetchone()
        if found is None:
            return False
        origin, run = found[:2], found[2]
        return bool(origin != (page, self._crawl) or run == self._run)

    def flush(self) -> None:
        """Write the new items; the checkpoint follows when this returns."""
        if self._new:
            with self._database:
                self._database.executemany(
                    _REPLACE,
                    [(*new, self._crawl, self._run) for new in self._new.items()],
                )
            self._new.clear()
