"""Rest: a slot that gets no request for a while, and the reason."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.crawl.progress.pace import clock
from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from collections.abc import Mapping

logger = logger_of(__name__)

RETRY_AFTER = "Retry-After"
"""Reason of a rest that the server has asked for."""
MOST_LOGGED = 100
"""Lines in the log of a run."""


class Rest(NamedTuple):
    """A slot's rest."""

    until: float
    """Unix time."""
    reason: str

    def text(self, now: float) -> str:
        """Return the rest in words, after the name of its slot."""
        return f"rests until {clock(self.until, now)} ({self.reason})"


def rests_in(crawl: Mapping[str, Any], now: float) -> dict[str, Rest]:
    """Return the slots that rest at Unix time ``now``, as a checkpoint has them.

    The record ``crawl`` has them under ``holds`` and ``circuits``, see
    :mod:`bloomdupe.crawl.later.backoff` and :mod:`bloomdupe.crawl.later.circuits`.
    """
    rests = [(slot, Rest(t, RETRY_AFTER)) for slot, t in crawl.get("holds", {}).items()]
    for slot, (_, rested, until, dead, reason) in crawl.get("circuits", {}).items():
        if rested and not dead:
            rests.append((slot, Rest(until, reason)))
    return {
        slot: rest
        for slot, rest in sorted(rests, key=lambda item: item[1].until)
        if rest.until > now
    }


class RestLog:
    """Logs rests with cause and time, up to a number of lines."""

    def __init__(self) -> None:
        self._logged = 0

    def begins(self, slot: str, until: float, cause: str) -> None:
        """Log a rest that lasts until a time of ``time.monotonic()``."""
        now = time.time()
        end = now + until - time.monotonic()
        self.write(slot, f"{cause} until {clock(end, now)}")

    def write(self, slot: str, news: str) -> None:
        """Log news of a slot: the rest of a sentence that begins with it."""
        if self._logged < MOST_LOGGED:
            self._logged += 1
            logger.info("Slot %(slot)r %(news)s", {"slot": slot, "news": news})
