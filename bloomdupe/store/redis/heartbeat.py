"""Heartbeat: shows that a worker is alive while a callback blocks it."""

from __future__ import annotations

from threading import Event, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_BLOCK = 8
"""Leases for which a worker that commits nothing may have a heartbeat."""
A_LEASE = 4
"""Heartbeats in the time of a lease."""
LONGER = 2
"""How many times as long the next block may be as one that was too long."""


class Heartbeat:
    """Counts for a worker, on a thread, as long as its ``step`` stands still.

    A callback may block its process for longer than the lease: in ``time.sleep()``, or
    in a call that waits for a server. Without this, its page would go to another
    worker, block it too, and go round for ever. A worker that is blocked
    for :data:`LONGEST_BLOCK` leases is taken for hung. If it comes back after all, all
    workers of the crawl learn that a callback may take so long.

    ``beat`` tells Redis of a heartbeat, or of the seconds for which a callback has
    blocked this worker; it returns the seconds that are known of all workers.
    """

    def __init__(
        self, lease: float, step: Callable[[], object], beat: Callable[[int], int]
    ) -> None:
        self._pause = lease / A_LEASE
        self._step = step
        self._beat = beat
        self._ended = Event()
        self._thread = Thread(target=self._run, name="bloomdupe heart", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        # Only the time in which this thread runs counts: the process may be stopped.
        limit = LONGEST_BLOCK * A_LEASE * self._pause
        last, blocked = self._step(), 0.0
        while not self._ended.wait(self._pause):
            now = self._step()
            if now == last:
                blocked += self._pause
                if blocked < limit:
                    limit = max(limit, self._beat(0))
                continue
            if blocked >= limit:
                limit = max(limit, self._beat(int(LONGER * blocked) + 1))
            last, blocked = now, 0.0

    def stop(self) -> None:
        """Have no more heartbeats."""
        self._ended.set()
