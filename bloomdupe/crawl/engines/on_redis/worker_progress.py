"""Progress: logs the state of one worker of a shared crawl."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bloomdupe.inside_scrapy.timer import Timer
from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from bloomdupe.frontier.frontier import Frontier
    from bloomdupe.redis.shared_frontier import SharedFrontier

__all__ = ["Progress"]

logger = logger_of(__name__)

MINUTE = 60.0
"""Seconds."""


class Progress:
    """Writes a line every ``interval`` seconds; 0: never.

    The line covers this worker only, so Redis is not asked.
    """

    def __init__(
        self,
        crawler: Crawler,
        at_hand: Frontier,
        frontier: SharedFrontier,
        interval: float,
    ) -> None:
        assert crawler.stats is not None  # noqa: S101 - the crawl is open
        self._stats = crawler.stats
        self._extra = {"spider": crawler.spider}
        self._at_hand = at_hand
        self._frontier = frontier
        self._interval = interval
        self._timer = Timer(self._on_timer)
        self._pages = 0
        self._said_at = time.monotonic()

    def begin(self) -> None:
        """Begin to write lines."""
        if self._interval:
            self._timer.set(self._interval)

    def end(self) -> None:
        """Write no more lines."""
        self._timer.cancel()

    def _on_timer(self) -> None:
        pages = self._stats.get_value("response_received_count", 0)
        now = time.monotonic()
        rate = (pages - self._pages) / (now - self._said_at) * MINUTE
        self._pages, self._said_at = pages, now
        logger.info(
            "This worker: %(pages)d pages, %(rate).0f a minute; %(pending)d requests"
            " at hand and %(leased)d in progress in %(slots)d slots; %(duplicates)d"
            " duplicates skipped; %(owned)d of %(partitions)d partitions",
            {
                "pages": pages,
                "rate": rate,
                "pending": self._at_hand.pending,
                "leased": self._at_hand.leased,
                "slots": self._at_hand.slots,
                "duplicates": self._stats.get_value("dupefilter/filtered", 0),
                "owned": len(self._frontier.owned),
                "partitions": self._frontier.partitions,
            },
            extra=self._extra,
        )
        self._timer.set(self._interval)
