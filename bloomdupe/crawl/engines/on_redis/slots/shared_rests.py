"""SharedRests: a slot that several workers crawl rests on all of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from bloomdupe.crawl.later.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from bloomdupe.crawl.state.slot_state import SlotState

__all__ = ["SharedRests"]

REST = b"R"
"""The kind of these news: the first byte of a subject, and of a text."""
SAME = 1.0
"""Seconds by which a rest must end later than the last one, to be news."""


class SharedRests:
    """Sends the rests that begin on this worker, and begins those of other workers.

    A rest that ends before its time is not sent: each worker finds that out.
    """

    def __init__(self, parts: Mapping[str, SlotState], slots: Collection[str]) -> None:
        """``slots`` are the slots that several workers crawl."""
        self._parts = parts
        self._slots = slots
        self._ends: dict[str, float] = {}
        """By slot, the Unix time of Redis when the last known rest ends."""

    def changes(self, slot: str, ahead: float) -> list[tuple[bytes, bytes]]:
        """Return the rest of a slot as news, if the other workers do not know it.

        Redis' clock is ``ahead`` of this machine's by some seconds.
        """
        if slot not in self._slots:
            return []
        clock = Clock(None, ahead)
        ends = {name: clock.at(one.until(slot)) for name, one in self._parts.items()}
        last = max(ends, key=ends.__getitem__)
        if ends[last] <= max(self._ends.get(slot, 0.0), clock.now) + SAME:
            return []
        self._ends[slot] = ends[last]
        state = self._parts[last].stored_of(slot, clock)
        text = json.dumps([slot, ends[last], last, state]).encode()
        return [(REST + slot.encode(), REST + text)]

    def take(self, news: Iterable[bytes], ahead: float) -> None:
        """Begin the rests of other workers."""
        clock = Clock(None, ahead)
        for text in (one[1:] for one in news if one[:1] == REST):
            slot, end, name, state = json.loads(text)
            if name in self._parts and end > self._ends.get(slot, 0.0):
                self._ends[slot] = end
                self._parts[name].restore_slot(slot, state, clock)
