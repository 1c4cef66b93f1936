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
    was left at that checkpoint.
    """

    def __init__(self, stored: float | None) -> None:
        self.stored = stored
        self._latest = max(time.time(), stored or 0.0)

    def until(self, stored: float, most: float) -> float:
        """Return a stored Unix time in seconds of ``time.monotonic()``.

        It is ``most`` seconds from now, at most.
        """
        return time.monotonic() + min(stored - self._latest, most)

    @staticmethod
    def at(until: float) -> float:
        """Return the Unix time of a result of :meth:`until`."""
        return round(until + time.time() - time.monotonic(), 3)

    def prepare(self) -> Part:
        """Return the time for the next checkpoint."""
        return Part(entries={"clock": round(time.time(), 3)})
