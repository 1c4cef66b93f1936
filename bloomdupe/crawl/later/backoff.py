"""Backoff: a server that sends Retry-After gets no request until then."""

from __future__ import annotations

import time
from datetime import timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from bloomdupe.crawl.later.clock import Clock
from bloomdupe.crawl.later.rests import RestLog
from bloomdupe.crawl.state.slot_state import SlotState
from bloomdupe.store.participant import Part, Participant

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.http import Response

STATUSES = (429, 503)
"""Statuses with which Retry-After says when the server will answer again: RFC 9110,
section 10.2.3, and RFC 6585, section 4.
"""


LONGEST_HOLD = 300.0
"""Seconds for which a slot is held back at most, whatever its server asks for."""


class Backoff(Participant, SlotState):
    """Holds a slot back as long as its server asks for, within :data:`LONGEST_HOLD`.

    ``wait`` returns the wait of a slot that is not held back.
    """

    def __init__(
        self,
        slot_of: Callable[[Request], str],
        wait: Callable[[str, int], float],
    ) -> None:
        self._slot_of = slot_of
        self._wait = wait
        self._holds: dict[str, float] = {}
        self._log = RestLog()
        self._clock = Clock(None)

    def wait(self, name: str, in_progress: int) -> float:
        """Return the seconds until a slot may have another request."""
        if self._holds:
            seconds = self._holds.get(name, 0.0) - time.monotonic()
            if seconds > 0:
                return seconds
            self._holds.pop(name, None)
        return self._wait(name, in_progress)

    def response_downloaded(self, response: Response, request: Request) -> None:
        """Look at a response (a signal)."""
        if response.status not in STATUSES:
            return
        value = response.headers.get("Retry-After")
        seconds = None if value is None else seconds_of(value)
        if seconds:
            until = time.monotonic() + min(seconds, LONGEST_HOLD)
            self.hold(self._slot_of(request), until)

    def hold(self, slot: str, until: float) -> None:
        """Hold a slot back until a time of ``time.monotonic()``, or longer."""
        held = self._holds.get(slot, 0.0)
        self._holds[slot] = max(until, held)
        if held <= time.monotonic() < until:
            self._log.begins(slot, until, "rests, as its Retry-After asks,")

    def resting(self) -> dict[str, float]:
        """Return the slots that are held back, until times of ``time.monotonic()``."""
        now = time.monotonic()
        return {slot: until for slot, until in self._holds.items() if until > now}

    # Checkpoints

    def restore(self, holds: dict[str, float], clock: Clock) -> None:
        """Restore the holds of the last checkpoint: Unix time by slot."""
        self._clock = clock
        for slot, stored in holds.items():
            self.restore_slot(slot, stored, clock)

    def prepare(self) -> Part:
        """Return the holds for the next checkpoint."""
        self._holds = self.resting()
        holds = {slot: self.stored_of(slot, self._clock) for slot in self._holds}
        return Part(entries={"holds": holds})

    # The state of a slot

    def stored_of(self, slot: str, clock: Clock) -> float | None:
        """See :meth:`SlotState.stored_of`: the Unix time when its hold ends."""
        until = self.until(slot)
        return clock.at(until) if until > time.monotonic() else None

    def restore_slot(self, slot: str, stored: float, clock: Clock) -> None:
        """See :meth:`SlotState.restore_slot`."""
        self.hold(slot, clock.until(stored, LONGEST_HOLD))

    def until(self, slot: str) -> float:
        """See :meth:`SlotState.until`."""
        return self._holds.get(slot, 0.0)


def seconds_of(value: bytes) -> float | None:
    """Read a Retry-After header: seconds from now, or None if it is invalid."""
    text = value.decode("latin-1").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
        if date.tzinfo is None:
            date = date.replace(tzinfo=timezone.utc)
        return max(0.0, date.timestamp() - time.time())
    except (ValueError, OverflowError):  # of the date, or of its time zone
        return None
