"""Clock: keeps the remaining rest of a slot, also for the next run of a job.

Within a run, seconds are counted by ``time.monotonic()``, so they do not depend on the
system clock. A checkpoint stores Unix time, because another process counts from a
different zero.
"""

from __future__ import annotations

import time

from bloomdupe.store.participant import Part, Participant


class Clock(Participant):
    """Converts times of this process into stored times, and back.

    ``stored`` is the Unix time of the last checkpoint; None if it is not known. A clock
    that was set back since then does not prolong a rest: no more can be left now than
    was left at that checkpoint. Stored times are those of a clock that is ``ahead`` of
    this machine's by some seconds.
    """

    def __init__(self, stored: float | None, ahead: float = 0.0) -> None:
        self.stored = stored
        self.ahead = ahead

    @property
    def now(self) -> float:
        """The Unix time of the clock."""
        return time.time() + self.ahead

    def until(self, stored: float, most: float) -> float:
        """Return a stored Unix time in seconds of ``time.monotonic()``.

        It is ``most`` seconds from now, at most.
        """
        now = max(self.now, self.stored or 0.0)
        return time.monotonic() + min(stored - now, most)

    def at(self, until: float) -> float:
        """Return the time to store of a result of :meth:`until`."""
        return round(until + self.now - time.monotonic(), 3)

    def prepare(self) -> Part:
        """Return the time for the next checkpoint."""
        return Part(entries={"clock": round(time.time(), 3)})
