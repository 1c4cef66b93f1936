"""Delays: the download delays of slots, and the times of their last requests.

Delays of AutoThrottle are kept for the next run, or the next owner of the slot.
Configured delays are kept for readers.
"""

from __future__ import annotations

import math
import time
from struct import Struct
from typing import TYPE_CHECKING

from bloomdupe.crawl.state.slot_state import SlotState
from bloomdupe.store.format import DELAYS, name_digest
from bloomdupe.store.participant import Part, Participant

if TYPE_CHECKING:
    from collections.abc import Callable

    from bloomdupe.crawl.later.clock import Clock
    from bloomdupe.inside_scrapy.engine import EngineAccess
    from bloomdupe.store.store import Store

SECONDS = Struct("<d")
"""A delay in the table ``delays``."""

MOST = 10_000
"""Delays kept in memory; the rest is read from the store when a slot is made."""


class Delays(Participant, SlotState):
    """Seconds by slot; a checkpoint writes those of AutoThrottle that have changed.

    Without a ``store``, the owner before has to be asked for them.
    """

    def __init__(self, engine: EngineAccess, store: Store | None) -> None:
        self._engine = engine
        self._store = store
        self._stored: dict[str, float] = {}
        self._given = {s: delay for s, delay in engine.given_delays.items() if delay}

    def of(self, slot: str) -> float | None:
        """Return the delay of a slot as it was stored last; None if unknown."""
        if slot not in self._stored and self._store is not None:
            with self._store.snapshot() as snapshot:
                found = snapshot.get(DELAYS, name_digest(slot))
            if found is None:
                return None
            (self._stored[slot],) = SECONDS.unpack(found)
        return self._stored.get(slot)

    # The state of a slot

    def stored_of(self, slot: str, clock: Clock) -> float | None:  # noqa: ARG002
        """See :meth:`SlotState.stored_of`: seconds, for a slot in use."""
        return self._engine.delay_of(slot) or None

    def restore_slot(self, slot: str, stored: float, clock: Clock) -> None:  # noqa: ARG002
        """See :meth:`SlotState.restore_slot`."""
        if len(self._stored) > MOST:
            self._stored.clear()  # each comes with the requests of its slot
        self._stored[slot] = stored

    def until(self, slot: str) -> float:  # noqa: ARG002
        """See :meth:`SlotState.until`."""
        return 0.0

    def prepare(self) -> Part:
        """Return the part of the next checkpoint.

        The record ``delays`` has the configured seconds by slot; "" is any other slot.
        """
        entries = {"delays": self._given} if self._given else {}
        if not self._engine.throttled:
            return Part(entries=entries)
        stored = self._stored
        changes = {
            slot: delay
            for slot, delay in self._engine.delays().items()
            if stored.get(slot) != delay
        }

        def done() -> None:
            if len(stored) > MOST:
                stored.clear()
            stored.update(changes)

        return Part(
            entries=entries,
            changes={
                DELAYS: [
                    (name_digest(slot), SECONDS.pack(delay))
                    for slot, delay in changes.items()
                ]
            },
            done=done,
        )


class LastRequests(SlotState):
    """Lets the delay of a slot pass after a request that its owner before has sent."""

    def __init__(self, engine: EngineAccess, wait: Callable[[str, int], float]) -> None:
        """``wait`` returns the wait of a slot without a request of another owner."""
        self._engine = engine
        self._wait = wait
        self._others: dict[str, float] = {}

    def wait(self, name: str, in_progress: int) -> float:
        """Return the seconds until a slot may have another request."""
        if self._others:
            last = self._others.get(name)
            if last is not None:
                seconds = last + self._engine.delay_of(name) - time.monotonic()
                if seconds > 0:
                    return seconds
                del self._others[name]
        return self._wait(name, in_progress)

    def sent(self, slot: str, last: float) -> None:
        """Consider a request of another owner, at a time of ``time.monotonic()``."""
        if self._engine.delay_of(slot) > 0:
            self._others[slot] = max(last, self._others.get(slot, last))

    # The state of a slot

    def _last(self, slot: str) -> float:
        return max(
            self._engine.last_request_of(slot), self._others.get(slot, -math.inf)
        )

    def stored_of(self, slot: str, clock: Clock) -> float | None:
        """See :meth:`SlotState.stored_of`: Unix time, if the slot has a delay."""
        if self._engine.delay_of(slot) <= 0:
            return None
        last = self._last(slot)
        return None if last == -math.inf else clock.at(last)

    def restore_slot(self, slot: str, stored: float, clock: Clock) -> None:
        """See :meth:`SlotState.restore_slot`."""
        self.sent(slot, clock.until(stored, 0.0))

    def until(self, slot: str) -> float:
        """See :meth:`SlotState.until`."""
        return self._last(slot) + self._engine.delay_of(slot)
