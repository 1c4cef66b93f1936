"""The control of the item tests: lines are written before their requests are done."""

from __future__ import annotations

from typing import Any

from scrapy.extensions import feedexport


class LinesAtOnce(feedexport.FeedExporter):
    """Writes each item at once, as Scrapy's own feed exports do, but unbuffered."""

    def item_scraped(self, item: Any, spider: Any) -> None:
        super().item_scraped(item, spider)
        for slot in self.slots:
            if slot.file is not None:
                slot.file.flush()
