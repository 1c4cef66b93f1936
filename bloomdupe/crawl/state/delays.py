"""Delays: the download delays of slots.

Those of AutoThrottle are kept for the next run. Configured delays are kept for readers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.store.format import DELAYS
from bloomdupe.store.participant import Part, Participant

if TYPE_CHECKING:
    from bloomdupe.inside_scrapy.engine import EngineAccess
    from bloomdupe.store.store import Store

__all__ = ["Delays"]

MOST = 10_000
"""Delays kept in memory; the rest is read from the store when a slot is made."""


class Delays(Participant):
    """Seconds by slot; a checkpoint writes those of AutoThrottle that have changed."""

    def __init__(self, engine: EngineAccess, store: Store) -> None:
        self._engine = engine
        self._store = store
        self._stored: dict[str, float] = {}
        self._given = {s: delay for s, delay in engine.given_delays.items() if delay}
        if engine.throttled:
            store.make_room_for(DELAYS)

    def of(self, slot: str) -> float | None:
        """Return the delay of a slot as of the last checkpoint; None if unknown."""
        if slot not in self._stored:
            with self._store.snapshot() as snapshot:
                delay = snapshot.delay(slot)
            if delay is None:
                return None
            self._stored[slot] = delay
        return self._stored[slot]

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
            write=lambda batch: batch.put_delays(changes),
            done=done,
        )
