"""DelayedQueue: delayed requests. The next of them are in memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bloomdupe.frontier.slot_queue import Entry, SlotQueue
from bloomdupe.store.format import DELAYED_KEY

if TYPE_CHECKING:
    from collections.abc import Container

    from bloomdupe.frontier.slot_queue import Read
    from bloomdupe.frontier.slots import Slots


class DelayedQueue(SlotQueue):
    """Requests by their not-before time, as in the queue of a slot.

    They are stored in the table ``delayed``, in the order of their times. The next
    request is always in memory. A request that is due *moves* into the queue of its
    slot: in memory at once, and in the store with the next checkpoint, which deletes it
    here and stores it there, unless it is done by then. So after a crash it is in
    exactly one table. The frontier writes and deletes them as it does all requests.
    """

    def __init__(self, slots: Slots, stored: int) -> None:
        super().__init__(0, "", stored)
        self.slots = slots
        self._find_next()

    def _find_next(self) -> None:
        if self.pending and not self.heap:
            self.take_in(self.reading()())
        self.next_due = math.inf
        """Unix time at which the next request is due; infinite without any."""
        if self.heap:
            self.next_due = DELAYED_KEY.unpack(self.heap[0][0])[0] / 1e6

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

    def _read(self, but: Container[bytes]) -> Read:
        items: list[tuple[bytes, Entry]] = []
        found, more = self._store.now.next_delayed(self.bound, but, self.batch)
        for one in found:
            entry = Entry(self, one.key, one.payload, stored=True)
            entry.turn = one.slot, one.priority, one.start
            items.append((one.key, entry))
        return items, more
