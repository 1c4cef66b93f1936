"""Recorder: a pipeline that keeps to ``bloomdupe.signals.checkpoint``.

It buffers its items and writes them when it is told, in a database of its own, with a
key for which the second time replaces the first. So each item must be there once, and
an item of a feed must be there, too.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from itemadapter import ItemAdapter
from scrapy.crawler import Crawler
from support import stops
from support.components import OfCrawler

FILE = "recorder.sqlite"


class Recorder(OfCrawler):
    """Stands last in ``ITEM_PIPELINES``."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._rows: list[tuple[str]] = []
        self._database = sqlite3.connect(FILE, isolation_level=None)
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute("CREATE TABLE IF NOT EXISTS items (item PRIMARY KEY)")

    def process_item(self, item: Any, *_: Any) -> Any:
        self._rows.append((json.dumps(ItemAdapter(item).asdict(), sort_keys=True),))
        return item

    def checkpoint(self) -> None:
        """Make all items durable; tell the judge which requests are in flight."""
        stops.tell("underway", *self._under_way())
        if not self._rows:
            return
        self._database.execute("BEGIN")
        self._database.executemany("REPLACE INTO items VALUES (?)", self._rows)
        self._database.execute("COMMIT")
        self._rows.clear()

    def _under_way(self) -> tuple[int, int]:
        """Count the requests in flight, and those of them that are in callbacks.

        Scrapy forgets a request that its own callback downloads once more.
        """
        engine: Any = self.crawler.engine
        slot, scraping = engine._slot, engine.scraper.slot
        if slot is None or scraping is None:
            return 0, 0
        in_callbacks = {request for _, request, _ in scraping.queue} | scraping.active
        return len(slot.inprogress | in_callbacks), len(in_callbacks)

    def close_spider(self, *_: Any) -> None:
        """Write nothing: bloomdupe says so once more after this."""
