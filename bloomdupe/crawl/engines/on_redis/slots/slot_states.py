"""SlotStates: the state of a worker's slots, which goes to their next owner."""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING

from bloomdupe.crawl.later.clock import Clock
from bloomdupe.redis.partition import AboutSlot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bloomdupe.crawl.state.slot_state import SlotState
    from bloomdupe.redis.partition import RedisLease

__all__ = ["SlotStates"]

MOST = 10_000
"""Slots whose stored state is known here. It is stored again if it was forgotten."""


class SlotStates:
    """Gives Redis each state that has changed; restores those of earlier owners.

    Redis keeps a JSON object for each slot, with a value for each of the ``parts``.
    """

    def __init__(
        self, parts: Mapping[str, SlotState], pending_in: Callable[[str], int]
    ) -> None:
        """``pending_in`` counts the requests of a slot that this worker has at hand."""
        self._parts = parts
        self._pending_in = pending_in
        self._known: dict[tuple[int, str], tuple[str, bytes]] = {}
        """By partition and slot: the owner's fencing token, and the stored state."""

    def changed(
        self, lease: RedisLease, ahead: float, due: float = 0.0
    ) -> AboutSlot | None:
        """Return the new state of a request's slot; None if it is stored already.

        Redis' clock is ``ahead`` of this machine's by some seconds. A further request
        of the slot may be ``due`` at a Unix time by Redis' clock.
        """
        slot, clock = lease.slot, Clock(None, ahead)
        values = {name: one.stored_of(slot, clock) for name, one in self._parts.items()}
        state = b""
        if any(value is not None for value in values.values()):
            given = {name: v for name, v in values.items() if v is not None}
            state = json.dumps(given, separators=(",", ":")).encode()
        _, stored = self._known.get((lease.partition, slot), ("", b""))
        if state == stored:
            return None
        self._know(lease, state)
        if self._pending_in(slot):
            return AboutSlot(slot, state, math.inf)
        until = max(one.until(slot) for one in self._parts.values())
        seconds = max(0.0, until - time.monotonic(), due - ahead - time.time())
        return AboutSlot(slot, state, seconds)

    def restore(self, lease: RedisLease, ahead: float) -> None:
        """Go on with the state that came with a request, unless it was stored here."""
        fence, _ = self._known.get((lease.partition, lease.slot), ("", b""))
        if not lease.about or fence == lease.fence:
            return
        clock = Clock(None, ahead)
        for name, value in json.loads(lease.about).items():
            if name in self._parts:
                self._parts[name].restore_slot(lease.slot, value, clock)
        self._know(lease, lease.about)

    def _know(self, lease: RedisLease, state: bytes) -> None:
        if len(self._known) > MOST:
            self._known.clear()
        self._known[lease.partition, lease.slot] = lease.fence, state
