"""Sleeping: the crawl sleeps while all remaining requests are scheduled for later."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING

from bloomdupe.crawl.progress.pace import duration, plural
from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from bloomdupe.frontier.frontier import Frontier

logger = logger_of(__name__)

WAITING = "waiting"
"""Finish reason of a run that ended before its remaining requests were due."""

BETWEEN_WORDS = 60.0
"""Seconds between two log lines about the number of waiting requests."""

JUMP = 60.0
"""Seconds by which the clock must have been set back for a warning; NTP corrects it by
less.
"""


class Sleeping:
    """Sleeps until the next request is due, if that is soon enough; else ends the run.

    ``most`` is the longest sleep in seconds; None: no limit. A request waits until the
    system clock shows its time. If the clock is set back, the request waits longer;
    nothing is lost, and a warning says so once.
    """

    def __init__(
        self, crawler: Crawler, frontier: Frontier, most: float | None
    ) -> None:
        self._crawler = crawler
        self._frontier = frontier
        self._most = most
        self._next_word = self._next_end = 0.0
        self._warned = False
        self._latest: float | None = None
        """Unix time of the last look; ``_looked`` is ``monotonic()`` of the same
        moment.
        """
        self._looked = 0.0

    def restore(self, stored: float | None) -> None:
        """Go on from the Unix time of the last checkpoint, if it is known."""
        self._latest = stored
        self._looked = time.monotonic()

    @property
    def is_worth_it(self) -> bool:
        """Whether the crawl goes on because of requests scheduled for later."""
        if not self._frontier.waiting:
            return False
        most = self._most
        return most is None or self._frontier.next_due - time.time() <= most

    def look(self) -> None:
        """Check the clock, and log now and then that the crawl sleeps."""
        if not self._frontier.waiting:
            return
        self._look_at_the_clock()
        now = time.monotonic()
        if now >= self._next_word and self.is_worth_it:
            self._next_word = now + BETWEEN_WORDS
            self._say("the crawl sleeps until then")

    def say_end(self) -> None:
        """Log that the run ends because only requests scheduled for later are left."""
        if self._most is None:
            return
        now = time.monotonic()
        if now >= self._next_end:  # unless an extension has kept the spider open since
            self._next_end = now + BETWEEN_WORDS
            then = "the same command goes on"
            if self._frontier.store is None:
                then = "they are lost, for there is no JOBDIR"
            self._say(f"BLOOMDUPE_WAIT = {self._most:g} ends the run, and {then}")

    def _say(self, what: str) -> None:
        due = self._frontier.next_due
        when = datetime.fromtimestamp(due).astimezone()
        logger.info(
            "%(later)s scheduled for later, the next one for %(when)s"
            " (in %(seconds)s): %(what)s",
            {
                "later": plural(self._frontier.waiting, "request is", "requests are"),
                "when": when.isoformat(" ", "seconds"),
                "seconds": duration(max(0, due - time.time())),
                "what": what,
            },
            extra={"spider": self._crawler.spider},
        )

    def _look_at_the_clock(self) -> None:
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
                        "later": self._frontier.waiting,
                    },
                    extra={"spider": self._crawler.spider},
                )
        self._latest, self._looked = now, looked
