"""Delays: the download delays of AutoThrottle, kept for the next run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.store.format import DELAYS

if TYPE_CHECKING:
    from bloomdupe.inside_scrapy.engine import EngineAccess
    from bloomdupe.store.batch import Batch
    from bloomdupe.store.store import Store

__all__ = ["Delays"]

MOST = 10_000
"""Delays kept in memory; the rest is read from the store when a slot is made."""


class Delays:
    """Seconds by slot; a checkpoint writes those that have changed."""

    def __init__(self, engine: EngineAccess, store: Store) -> None:
        self._engine = engine
        self._store = store
        self._stored: dict[str, float] = {}
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

    def change(self) -> _DelaysChange:
        """Return the changes for the next checkpoint, without changing anything."""
        stored = self._stored
        return _DelaysChange(
            self,
            {
                slot: delay
                for slot, delay in self._engine.delays().items()
                if stored.get(slot) != delay
            },
        )


class _DelaysChange(NamedTuple):
    """The delays' part of a transaction (a :class:`bloomdupe.store.store.Change`)."""

    delays: Delays
    changed: dict[str, float]

    def write(self, batch: Batch) -> None:
        """Put it into the transaction."""
        batch.put_delays(self.changed)

    def done(self) -> None:
        """Remember the delays as stored, after the commit."""
        stored = self.delays._stored
        if len(stored) > MOST:
            stored.clear()
        stored.update(self.changed)
