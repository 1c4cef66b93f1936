"""SlotStates: the state of a worker's slots, which goes to their next owner."""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING

from bloomdupe.crawl.engines.on_redis.going.slot_values import state_of, values_of
from bloomdupe.frontier.clock import Clock
from bloomdupe.frontier.slot_state import SlotState
from bloomdupe.redis.partition import AboutSlot

if TYPE_CHECKING:
    from bloomdupe.crawl.state.slot_rules import SlotRules
    from bloomdupe.frontier.frontier import Frontier
    from bloomdupe.inside_scrapy.engine import EngineAccess
    from bloomdupe.redis.partition import RedisLease

__all__ = ["SlotStates"]

MOST = 10_000
"""Slots whose stored state is known here. It is stored again if it was forgotten."""


class SlotStates:
    """Gives Redis each state that has changed; restores those of earlier owners."""

    def __init__(self, rules: SlotRules, engine: EngineAccess, queue: Frontier) -> None:
        """The ``queue`` has the requests that this worker has at hand."""
        self._rules = rules
        self._engine = engine
        self._queue = queue
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
        now, stands = time.monotonic(), self._present(slot)
        values = values_of(stands, clock.at, now)
        state = json.dumps(values, separators=(",", ":")).encode() if values else b""
        _, stored = self._known.get((lease.partition, slot), ("", b""))
        if state == stored:
            return None
        self._know(lease, state)
        if self._queue.pending_in(slot):
            return AboutSlot(slot, state, math.inf)
        until = max(stands.held, stands.last + stands.delay)
        if stands.rests:
            until = max(until, stands.until)
        seconds = max(0.0, until - now, due - ahead - time.time())
        return AboutSlot(slot, state, seconds)

    def restore(self, lease: RedisLease, ahead: float) -> None:
        """Go on with the state that came with a request, unless it was stored here."""
        fence, _ = self._known.get((lease.partition, lease.slot), ("", b""))
        if not lease.about or fence == lease.fence:
            return
        clock = Clock(None, ahead, self._rules.longest_rest)
        given = state_of(json.loads(lease.about), clock.until)
        state, name = self._queue.slots.state(lease.slot), lease.slot
        state.delay = given.delay or state.delay
        state.held = max(state.held, given.held)
        if given.rests:
            state.failures, state.rests, state.until = (
                given.failures, given.rests, given.until,
            )  # fmt: skip
            state.dead, state.reason = given.dead, given.reason
        self._rules.say(name, state)
        self._rules.sent(name, min(given.last, time.monotonic()))
        self._know(lease, lease.about)

    def _present(self, slot: str) -> SlotState:
        """Return the state of a slot, with delay and last request of this worker."""
        known = self._queue.slots.state_of(slot) or SlotState()
        state = SlotState()
        for name in ("failures", "rests", "until", "dead", "reason", "held"):
            setattr(state, name, getattr(known, name))
        state.delay = self._engine.delay_of(slot)
        state.last = max(self._engine.last_request_of(slot), known.last)
        return state

    def _know(self, lease: RedisLease, state: bytes) -> None:
        if len(self._known) > MOST:
            self._known.clear()
        self._known[lease.partition, lease.slot] = lease.fence, state
