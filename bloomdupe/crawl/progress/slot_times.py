"""SlotTimes: which slots rest, and how long the slowest slot takes."""

from __future__ import annotations

import heapq
import time
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.crawl.progress.pace import LONGEST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bloomdupe.frontier.frontier import Frontier
    from bloomdupe.inside_scrapy.engine import EngineAccess


PART_OF_TIME = 0.01
"""Greatest part of the time to spend on looks at all slots: there may be a million."""
MOST = 100
"""Slots whose pace is measured, those with the most pending requests."""
MINUTE = 60.0
LEAST = 10.0
"""Seconds that a pace is measured before it counts."""


class SlotLook(NamedTuple):
    """The slots at a moment."""

    resting: Mapping[str, float]
    """Slots with pending requests that rest, until times of ``time.monotonic()``."""
    slowest: float
    """Seconds that the slowest slot takes at least; 0 if that is unknown."""
    largest: list[tuple[str, int]]
    """The slots with the most pending requests, and their numbers of requests."""


class SlotTimes:
    """Looks at the slots with pending requests."""

    def __init__(
        self,
        frontier: Frontier,
        engine: EngineAccess,
        resting: Callable[[], dict[str, float]],
        counts: Callable[[], Mapping[str, list[int]]],
    ) -> None:
        """``resting`` returns slots with pending requests that rest, and until when.

        ``counts`` returns by slot the number of its pages, and another number.
        """
        self._frontier = frontier
        self._engine = engine
        self._resting = resting
        self._counts = counts
        self._paces = SlotPaces()
        self._largest: list[tuple[str, int]] = []
        self._slowest = 0.0
        self._due = 0.0

    def look(self, *, whole: bool = False) -> SlotLook:
        """Return the slots that rest, and the slowest slot.

        A slot with a delay takes it for each of its pending requests, however fast it
        answers. A slot that has as many requests in progress as it may have goes on at
        the pace of the last minute. With very many slots, all but the rests is as it
        was at the last look that was due, unless this is to be a ``whole`` look.
        """
        ends = self._resting()
        now = time.monotonic()
        if whole or now >= self._due:
            self._look_at_all(ends, now)
            ended = time.monotonic()
            self._due = ended + (ended - now) / PART_OF_TIME
        last = max(ends.values(), default=now)
        slowest = min(max(last - now, self._slowest), LONGEST)
        return SlotLook(ends, slowest, self._largest)

    def _look_at_all(self, ends: dict[str, float], now: float) -> None:
        slots, engine = self._frontier.pending_by_slot, self._engine
        self._largest = heapq.nlargest(MOST, slots(), key=lambda one: one[1])
        longest = 0.0
        if engine.has_delays:
            for slot, pending in slots():
                rest = ends.get(slot, now) - now
                longest = max(longest, rest + pending * engine.delay_of(slot))
        counts = self._counts()
        self._paces.begin(now)
        for slot, pending in self._largest:
            pages = counts.get(slot, (0, 0))[0]
            seconds = self._paces.seconds_for(slot, pending, pages)
            if engine.is_full(slot):
                longest = max(longest, seconds)
        self._slowest = longest


class SlotPaces:
    """The pace of slots, over the last minute or two."""

    def __init__(self) -> None:
        self._now = self._turned = 0.0
        self._before: dict[str, tuple[float, int]] = {}
        self._since: dict[str, tuple[float, int]] = {}
        """The time when a slot was looked at first, and its pages then."""

    def begin(self, now: float) -> None:
        """Begin a look, at a time in seconds."""
        self._now = now
        if now - self._turned >= MINUTE:
            self._turned = now
            self._before, self._since = self._since, {}

    def seconds_for(self, slot: str, pending: int, pages: int) -> float:
        """Return the seconds that ``pending`` requests of a slot take; 0: unknown.

        ``pages`` is the number of its pages so far.
        """
        since = self._since.setdefault(slot, (self._now, pages))
        begun, counted = self._before.get(slot, since)
        if self._now - begun < LEAST or pages <= counted:
            return 0.0
        return pending * (self._now - begun) / (pages - counted)
