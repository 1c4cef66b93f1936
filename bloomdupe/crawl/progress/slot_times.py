"""SlotTimes: how many slots rest, and how long the slowest slot takes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bloomdupe.frontier.frontier import Frontier
    from bloomdupe.inside_scrapy.engine import EngineAccess

__all__ = ["SlotTimes"]


PART_OF_TIME = 0.01
"""Greatest part of the time to spend on looks at all slots: there may be a million."""


class SlotTimes:
    """Looks at the slots with pending requests."""

    def __init__(
        self,
        frontier: Frontier,
        engine: EngineAccess,
        rests: Iterable[Callable[[], dict[str, float]]],
    ) -> None:
        """``rests`` return slots that rest, until times of ``time.monotonic()``."""
        self._frontier = frontier
        self._engine = engine
        self._rests = list(rests)
        self._slowest = 0.0
        self._due = 0.0

    def look(self) -> tuple[int, float]:
        """Return how many slots rest, and the seconds that the slowest takes at least.

        A slot with a delay takes it for each of its pending requests, however fast it
        answers. Without any delay and rest, the seconds are 0. With very many slots,
        the delays count as they were at the last look that was due.
        """
        ends: dict[str, float] = {}
        for resting in self._rests:
            for slot, until in resting().items():
                if self._frontier.pending_in(slot):
                    ends[slot] = max(until, ends.get(slot, until))
        now = time.monotonic()
        longest = max((until - now for until in ends.values()), default=0.0)
        if not (self._engine.throttled or any(self._engine.given_delays.values())):
            return len(ends), longest
        if now >= self._due:
            self._slowest = self._slowest_of_all(ends, now)
            ended = time.monotonic()
            self._due = ended + (ended - now) / PART_OF_TIME
        return len(ends), max(longest, self._slowest)

    def _slowest_of_all(self, ends: dict[str, float], now: float) -> float:
        delay_of = self._engine.delay_of
        longest = 0.0
        for slot, pending in self._frontier.pending_by_slot():
            rest = ends.get(slot, now) - now
            longest = max(longest, rest + pending * delay_of(slot))
        return longest
