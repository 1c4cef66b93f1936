"""Waiting: what a crawl does while all that is left waits for a point in time."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING

from bloomdupe.crawl.progress.pace import duration
from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from bloomdupe.frontier.frontier import Frontier

__all__ = ["WAITING", "Waiting"]

logger = logger_of(__name__)

WAITING = "waiting"
"""The reason of a crawl that has ended before what waits was due."""

BETWEEN_WORDS = 60.0
"""Seconds between two lines in the log that say how many wait."""

JUMP = 60.0
"""Seconds by which the clock must have been set back to be worth a warning; clocks
that are kept right by NTP are moved by less."""


class Waiting:
    """Sleeps until the next request is due, if that is soon enough; else ends the run.

    ``most`` is the number of seconds that are soon enough; None: any. A request waits
    until the clock on the wall shows its time. If that is set back, it waits longer;
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
        """Unix time of the last look, and what ``monotonic()`` said then."""
        self._looked = 0.0

    def take_up(self, stored: float | None) -> None:
        """Go on from the Unix time of the last checkpoint, if it is known."""
        self._latest = stored
        self._looked = time.monotonic()

    @property
    def is_worth_it(self) -> bool:
        """Whether the crawl goes on because of requests that wait for their time."""
        if not self._frontier.waiting:
            return False
        most = self._most
        return most is None or self._frontier.next_due - time.time() <= most

    def look(self) -> None:
        """Look at the clock, and say that the crawl sleeps, now and then."""
        if not self._frontier.waiting:
            return
        self._look_at_the_clock()
        now = time.monotonic()
        if now >= self._next_word and self.is_worth_it:
            self._next_word = now + BETWEEN_WORDS
            self._say("the crawl sleeps until then")

    def say_end(self) -> None:
        """Say that the run ends because all that is left waits."""
        if self._most is None:
            return
        now = time.monotonic()
        if now >= self._next_end:  # unless others have kept the spider open since
            self._next_end = now + BETWEEN_WORDS
            then = "the same command goes on"
            if self._frontier.store is None:
                then = "they are lost, for there is no JOBDIR"
            self._say(f"BLOOMDUPE_WAIT = {self._most:g} ends the run, and {then}")

    def _say(self, what: str) -> None:
        due = self._frontier.next_due
        when = datetime.fromtimestamp(due).astimezone()
        logger.info(
            "%(waiting)d requests wait for a point in time, the next one until"
            " %(when)s (in %(seconds)s): %(what)s",
            {
                "waiting": self._frontier.waiting,
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
                    "The clock was set back by %(seconds)s: the %(waiting)d requests"
                    " that wait for a point in time wait until the clock shows it."
                    " Nothing is lost",
                    {
                        "seconds": duration(back),
                        "waiting": self._frontier.waiting,
                    },
                    extra={"spider": self._crawler.spider},
                )
        self._latest, self._looked = now, looked
