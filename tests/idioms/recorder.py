"""Recorder: a pipeline that keeps to ``bloomdupe.signals.checkpoint``.

It buffers its items, and writes them when it is told, in a file of its own, as users do
in a database. An item that comes twice counts once; so an item of a feed must be there,
and nothing else.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from itemadapter import ItemAdapter
from support import stops
from support.components import OfCrawler

FILE = "recorded"


class Recorder(OfCrawler):
    """Stands last in ``ITEM_PIPELINES``."""

    _lines = ""

    def process_item(self, item: Any, *_: Any) -> Any:
        self._lines += "\n" + json.dumps(ItemAdapter(item).asdict())
        return item

    def checkpoint(self) -> None:
        """Make all items durable; tell the judge which requests are in flight."""
        stops.tell("underway", *self._under_way())
        with Path(FILE).open("a", encoding="utf-8") as file:
            file.write(self._lines)
        self._lines = ""

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
