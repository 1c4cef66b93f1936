"""Heartbeat: shows that a worker is alive while a callback blocks it."""

from __future__ import annotations

from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_BLOCK = 8
"""Leases for which a worker that commits nothing may have a heartbeat."""
A_LEASE = 4
"""Heartbeats in the time of a lease."""


class Heartbeat:
    """Calls ``beat`` on a thread, as long as the ``step`` of a worker stands still.

    A callback may block its process for longer than the lease: in ``time.sleep()``, or
    in a call that waits for a server. Without this, its page would go to another
    worker, block that one, and go round for ever. One that blocks for
    :data:`LONGEST_BLOCK` leases is taken for hung.
    """

    def __init__(
        self, lease: float, step: Callable[[], object], beat: Callable[[], None]
    ) -> None:
        self._lease = lease
        self._step = step
        self._beat = beat
        self._ended = Event()
        self._thread = Thread(target=self._run, name="bloomdupe heart", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        last, since = self._step(), monotonic()
        while not self._ended.wait(self._lease / A_LEASE):
            now = self._step()
            if now != last:
                last, since = now, monotonic()
            elif monotonic() - since < LONGEST_BLOCK * self._lease:
                self._beat()

    def stop(self) -> None:
        """Have no more heartbeats."""
        self._ended.set()
