"""SlotState: what is remembered of a slot besides its requests, and what follows.

:func:`backoff_of` answers the question whether a slot may have a request.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from bloomdupe.store.format import packed, unpacked

RETRY_AFTER = "Retry-After"
"""Reason of a backoff that the server has asked for."""
PAUSED = "paused"
"""Reason of a backoff that the user has asked for."""
PROBED = "a request tries whether it answers"
DELAY = "its delay"

PROBING = 1.0
"""Seconds after which to ask again while a probe is in flight. Usually the end of the
probe comes first.
"""


@dataclass(slots=True, eq=False)
class SlotState:
    """Pages, delay and backoffs of a slot.

    In the store it is a msgpack array of the attributes up to ``reason``. Times are
    Unix times, and 0 is never.
    """

    pages: int = 0
    """Requests ever taken in, if they are limited."""
    delay: float = 0.0
    """Seconds between two requests."""
    last: float = 0.0
    """When another process has sent its last request."""
    held: float = 0.0
    """Until when its server wants to be left alone."""
    until: float = 0.0
    """When the last of its backoffs ends."""
    failures: int = 0
    """Failures in a row."""
    backoffs: int = 0
    """Backoffs in a row; 0: it has not failed so often."""
    down: bool = False
    """Whether it is marked down: it does not back off any more."""
    reason: str = ""
    """The last failure."""
    probe: object = None
    """The request in flight that tests whether the slot answers."""

    @property
    def is_open(self) -> bool:
        """Whether it has failed so often that it backs off, or is probed."""
        return self.backoffs > 0 and not self.down

    def lasts(self, now: float) -> bool:
        """Whether it matters for a slot that has no requests."""
        return bool(self.pages or self.delay or self.backoffs or self.held > now)

    def packed(self, delay: float = 0.0, last: float = 0.0) -> bytes:
        """Return it as bytes.

        The ``delay``, and the time of the ``last`` request, are those of this process.
        """
        return packed((
            self.pages, delay or self.delay, max(last, self.last), self.held,
            self.until, self.failures, self.backoffs, self.down, self.reason,
        ))  # fmt: skip

    @classmethod
    def read(cls, stored: bytes) -> SlotState:
        """Read it from bytes."""
        return cls(*unpacked(stored))


class Backoff(NamedTuple):
    """A time in which a slot gets no request."""

    until: float
    reason: str


def backoff_of(
    state: SlotState | None, now: float, *, paused: bool = False, delay: float = 0.0
) -> Backoff | None:
    """Return until when a slot gets no request, and why; None: it may have one now.

    ``now`` is a time like those of the ``state``. The ``delay`` counts from the last
    request that another process has sent.
    """
    if paused:
        return Backoff(math.inf, PAUSED)
    if state is None:
        return None
    until, reason = state.held, RETRY_AFTER
    if state.is_open:
        if state.until > until:
            until, reason = state.until, state.reason
        if state.probe is not None and until <= now:
            until, reason = now + PROBING, PROBED
    if state.last + delay > until:
        until, reason = state.last + delay, DELAY
    return Backoff(until, reason) if until > now else None
