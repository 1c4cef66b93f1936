"""The controls of F3: parts that are not crash-safe, and kill themselves to show it.

They do so after ``KILLED_AT`` marks or items, when the rest is not durable yet.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from scrapy import Spider
from scrapy.extensions import feedexport

from bloomdupe import FrontierScheduler
from bloomdupe.crawl.engines.engine_contract import Accepted


class Countdown:
    """Kills this process in the end."""

    def __init__(self, left: int) -> None:
        self._left = left

    def count(self) -> None:
        self._left -= 1
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)


class MarksFirst(FrontierScheduler):
    """Commits each mark before its request, as Scrapy's own scheduler does."""

    def open(self, spider: Spider) -> Any:
        opened = super().open(spider)
        engine: Any = self._opened.engine
        take = engine.take
        seen = engine.frontier.seen
        store = engine.frontier.store
        assert store is not None
        countdown = Countdown(spider.settings.getint("KILLED_AT"))

        def marking(offer: Accepted) -> bool:
            new = [seen.add(key, exact=exact) for key, exact in offer.keys]
            store.commit(seen.prepare())
            if all(new):
                countdown.count()
            return bool(take(offer))

        engine.take = marking
        return opened


class LinesAtOnce(feedexport.FeedExporter):
    """Writes each item before its page is done, as Scrapy's own feed exports do."""

    def open_spider(self, spider: Any) -> None:
        super().open_spider(spider)
        self._countdown = Countdown(spider.settings.getint("KILLED_AT"))

    def item_scraped(self, item: Any, spider: Any) -> None:
        super().item_scraped(item, spider)
        for slot in self.slots:
            if slot.file is not None:
                slot.file.flush()
        self._countdown.count()
