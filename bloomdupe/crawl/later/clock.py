"""Clock: how long a slot still rests, also in the next run of a job.

Within a run, seconds are counted by ``time.monotonic()``, so they last as long as they
should. A checkpoint keeps Unix time, for another process counts from somewhere else.
"""

from __future__ import annotations

import time

from bloomdupe.crawl.engines.part import Part

__all__ = ["Clock"]


class Clock:
    """Turns points in time of this process into stored ones, and back.

    ``stored`` is the Unix time of the last checkpoint; None if it is not known. A clock
    that was set back since then does not prolong anything: what was left at that
    checkpoint is the most that can be left now.
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
        """Return the Unix time for what :meth:`until` has returned."""
        return round(until + time.time() - time.monotonic(), 3)

    def prepare(self) -> Part:
        """Work out what the next checkpoint writes."""
        return Part({"clock": round(time.time(), 3)})
