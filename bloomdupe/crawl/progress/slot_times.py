"""SlotLook: which slots rest, and how long the slowest slot takes."""

from __future__ import annotations

import heapq
import time
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.crawl.progress.pace import LONGEST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bloomdupe.frontier.frontier import Frontier
    from bloomdupe.inside_scrapy.engine import EngineAccess

MOST = 20
"""Slots that are named, those with the most pending requests."""


class SlotLook(NamedTuple):
    """The slots at a moment."""

    resting: Mapping[str, float]
    """Slots with pending requests that rest, until Unix times."""
    slowest: float
    """Seconds that the slowest slot takes at least, by its delay and its rest."""
    largest: list[tuple[str, int]]
    """The slots with the most pending requests, and their numbers of requests."""


def look_at_slots(
    frontier: Frontier, engine: EngineAccess, resting: Mapping[str, float]
) -> SlotLook:
    """Look at all slots with pending requests.

    A slot with a delay takes it for each of its pending requests, however fast it
    answers.
    """
    now, slots = time.time(), frontier.pending_by_slot
    slowest = max(resting.values(), default=now) - now
    if engine.has_delays:
        for slot, pending in slots():
            rest = resting.get(slot, now) - now
            slowest = max(slowest, rest + pending * engine.delay_of(slot))
    largest = heapq.nlargest(MOST, slots(), key=lambda one: one[1])
    return SlotLook(resting, min(slowest, LONGEST), largest)
