"""Heartbeat: shows that a worker is alive while a callback blocks it."""

from __future__ import annotations

from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bloomdupe.store.redis.owner import PartitionOwner

LONGEST_BLOCK = 8
"""Leases for which a worker that commits nothing may have a heartbeat."""
A_LEASE = 4
"""Heartbeats in the time of a lease."""


class Heartbeat:
    """Counts for a worker, on a thread, as long as its steps stand still.

    A callback may block its process for longer than the lease: in ``time.sleep()``, or
    in a call that waits for a server. Without this, its page would go to another
    worker, block that one, and go round for ever. One that blocks for
    :data:`LONGEST_BLOCK` leases is taken for hung.
    """

    def __init__(self, owner: PartitionOwner, lease: float) -> None:
        self._owner = owner
        self._lease = lease
        self._ended = Event()
        self._thread = Thread(target=self._run, name="bloomdupe heart", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        owner = self._owner
        last, since = (owner.token, owner.step), monotonic()
        while not self._ended.wait(self._lease / A_LEASE):
            now = owner.token, owner.step
            if now != last:
                last, since = now, monotonic()
            elif monotonic() - since < LONGEST_BLOCK * self._lease:
                owner.beat()

    def stop(self) -> None:
        """Have no more heartbeats."""
        self._ended.set()
