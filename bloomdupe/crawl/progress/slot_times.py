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
MOST = 20
"""Slots that are named, those with the most pending requests."""


class SlotLook(NamedTuple):
    """The slots at a moment."""

    resting: Mapping[str, float]
    """Slots with pending requests that rest, until times of ``time.monotonic()``."""
    slowest: float
    """Seconds that the slowest slot takes at least, by its delay and its rest."""
    largest: list[tuple[str, int]]
    """The slots with the most pending requests, and their numbers of requests."""


class SlotTimes:
    """Looks at the slots with pending requests; ``resting`` returns those that rest."""

    def __init__(
        self,
        frontier: Frontier,
        engine: EngineAccess,
        resting: Callable[[], dict[str, float]],
    ) -> None:
        self._frontier = frontier
        self._engine = engine
        self._resting = resting
        self._largest: list[tuple[str, int]] = []
        self._slowest = self._due = 0.0

    def look(self, *, whole: bool = False) -> SlotLook:
        """Return the slots that rest, and the slowest slot.

        A slot with a delay takes it for each of its pending requests, however fast it
        answers. With very many slots, all but the rests is as it was at the last look
        that was due, unless this is to be a ``whole`` look.
        """
        ends, now = self._resting(), time.monotonic()
        if whole or now >= self._due:
            slots, delay_of = self._frontier.pending_by_slot, self._engine.delay_of
            self._largest = heapq.nlargest(MOST, slots(), key=lambda one: one[1])
            self._slowest = 0.0
            if self._engine.has_delays:
                for slot, pending in slots():
                    rest = ends.get(slot, now) - now
                    slowest = rest + pending * delay_of(slot)
                    self._slowest = max(self._slowest, slowest)
            ended = time.monotonic()
            self._due = ended + (ended - now) / PART_OF_TIME
        last = max(ends.values(), default=now)
        slowest = min(max(last - now, self._slowest), LONGEST)
        return SlotLook(ends, slowest, self._largest)
