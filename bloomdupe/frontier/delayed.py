"""DelayedQueue: delayed requests. The next of them are in memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bloomdupe.frontier.slot_queue import Entry, SlotQueue
from bloomdupe.store.format import DELAYED, delayed_value, due_of, unpacked

if TYPE_CHECKING:
    from bloomdupe.frontier.slots import Slots


class DelayedQueue(SlotQueue):
    """Requests by their not-before time, as in the queue of a slot.

    They are stored like a slot with the number :data:`DELAYED`. The next request is
    always in memory. A request that is due *moves* into the queue of its slot: in
    memory at once, and in the store with the next checkpoint, which deletes it here and
    stores it there, unless it is done by then. So after a crash it is in exactly one
    place.
    """

    def __init__(self, slots: Slots, stored: int) -> None:
        super().__init__(DELAYED, "", stored)
        self.slots = slots
        self._find_next()

    def _find_next(self) -> None:
        if self.pending and not self.heap:
            self.take_in(self.reading()())
        self.next_due = math.inf
        """Unix time at which the next request is due; infinite without any."""
        if self.heap:
            self.next_due = due_of(self.heap[0][0])

    def push(self, entry: Entry) -> None:
        """Add a request."""
        super().push(entry)
        self._find_next()

    def pop(self) -> Entry:
        """Remove and return the next request."""
        entry = super().pop()
        self._find_next()
        return entry

    def relieve(self) -> None:
        """Keep no more than the next requests in memory."""
        super().relieve()
        self._find_next()

    def stored_value(self, entry: Entry) -> bytes | None:
        """Return a request as it is stored: with what its slot must know."""
        assert entry.payload is not None  # noqa: S101 - or it is not stored
        slot, priority, start = entry.turn
        return delayed_value(slot, priority, entry.payload, start=start)

    def _read_entry(self, rank: bytes, value: bytes) -> Entry:
        slot, priority, start, payload = unpacked(value)
        entry = super()._read_entry(rank, payload)
        entry.turn = slot, priority, start
        return entry
