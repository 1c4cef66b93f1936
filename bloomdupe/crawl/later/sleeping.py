"""Sleeping: the crawl sleeps while all remaining requests are scheduled for later."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from bloomdupe.crawl.progress.pace import duration, plural
from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logger_of(__name__)

WAITING = "waiting"
"""Finish reason of a run that ended before its remaining requests were due."""

BETWEEN_WORDS = 60.0
"""Seconds between two log lines about the number of waiting requests."""

JUMP = 60.0
"""Seconds by which the clock must have been set back for a warning; NTP corrects it by
less.
"""


class Schedule(Protocol):
    """The requests that are scheduled for later, as far as they are known."""

    @property
    def waiting(self) -> int:
        """Number of these requests."""

    @property
    def next_due(self) -> float:
        """Unix time at which the first of them is due."""


class Sleeping:
    """Sleeps until the next request is due, if that is soon enough; else ends the run.

    ``most`` is the longest sleep in seconds; None: no limit. ``durable`` says whether
    the requests survive the process.
    """

    def __init__(
        self, crawler: Crawler, schedule: Schedule, most: float | None, *, durable: bool
    ) -> None:
        self._crawler = crawler
        self._schedule = schedule
        self._most = most
        self._durable = durable
        self._next_word = self._next_end = 0.0

    @property
    def is_worth_it(self) -> bool:
        """Whether the crawl goes on because of requests scheduled for later."""
        if not self._schedule.waiting:
            return False
        most = self._most
        return most is None or self._schedule.next_due - time.time() <= most

    def look(self) -> None:
        """Log now and then that the crawl sleeps."""
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
            if not self._durable:
                then = "they are lost, for there is no JOBDIR"
            self._say(f"BLOOMDUPE_WAIT = {self._most:g} ends the run, and {then}")

    def _say(self, what: str) -> None:
        due = self._schedule.next_due
        when = datetime.fromtimestamp(due).astimezone()
        logger.info(
            "%(later)s scheduled for later, the next one for %(when)s"
            " (in %(seconds)s): %(what)s",
            {
                "later": plural(self._schedule.waiting, "request is", "requests are"),
                "when": when.isoformat(" ", "seconds"),
                "seconds": duration(max(0, due - time.time())),
                "what": what,
            },
            extra={"spider": self._crawler.spider},
        )


class SystemClock:
    """Warns once if the system clock is set back while requests wait for their times.

    They wait longer then; nothing is lost.
    """

    def __init__(
        self, crawler: Crawler, schedule: Schedule, stored: float | None
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
