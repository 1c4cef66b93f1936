"""Clock: keeps the remaining rest of a slot, also for the next run of a job.

Within a run, seconds are counted by ``time.monotonic()``, so they do not depend on the
system clock. A checkpoint stores Unix time, because another process counts from a
different zero.
"""

from __future__ import annotations

import math
import time

NEVER = -math.inf
"""A time of ``time.monotonic()`` that has never been; 0 in the store."""


class Clock:
    """Converts times of this process into stored times, and back.

    ``stored`` is the Unix time of the last checkpoint; None if it is not known. A clock
    that was set back since then does not prolong a rest: no more can be left now than
    was left at that checkpoint. No stored time is taken to be more than ``most``
    seconds away.
    """

    def __init__(self, stored: float | None, most: float = math.inf) -> None:
        self.stored = stored
        self._most = most

    def until(self, stored: float) -> float:
        """Return a stored Unix time in seconds of ``time.monotonic()``."""
        if not stored:
            return NEVER
        now = max(time.time(), self.stored or 0.0)
        return time.monotonic() + min(stored - now, self._most)

    def at(self, until: float) -> float:
        """Return the time to store of a result of :meth:`until`."""
        if until == NEVER:
            return 0.0
        return round(until + time.time() - time.monotonic(), 3)
