"""SystemClock: warns of a clock that is set back while requests wait for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bloomdupe.crawl.progress.pace import duration
from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from bloomdupe.frontier.frontier import Frontier

logger = logger_of(__name__)

JUMP = 60.0
"""Seconds by which the clock must have been set back for a warning; NTP corrects it by
less.
"""


class SystemClock:
    """Warns once if the system clock is set back while requests wait for their times.

    They wait longer then; nothing is lost.
    """

    def __init__(
        self, crawler: Crawler, schedule: Frontier, stored: float | None
    ) -> None:
        """``stored`` is the Unix time of the last checkpoint, if it is known."""
        self._crawler = crawler
        self._schedule = schedule
        self._warned = False
        self._latest = stored
        """Unix time of the last look; ``_looked`` is ``monotonic()`` of the same
        moment.
        """
        self._looked = time.monotonic()

    def look(self) -> None:
        """Compare it with the monotonic clock."""
        if not self._schedule.waiting:
            return
        now, looked = time.time(), time.monotonic()
        if self._latest is not None:
            back = self._latest + (looked - self._looked) - now
            if back > JUMP and not self._warned:
                self._warned = True
                logger.warning(
                    "The clock was set back by %(seconds)s: the %(later)d requests that"
                    " are scheduled for later stay until it shows their times. Nothing"
                    " is lost",
                    {
                        "seconds": duration(back),
                        "later": self._schedule.waiting,
                    },
                    extra={"spider": self._crawler.spider},
                )
        self._latest, self._looked = now, looked
