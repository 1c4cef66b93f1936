"""RequestCounts: what happens to every request, for Scrapy's stats."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from bloomdupe.inside_scrapy.timer import Timer

if TYPE_CHECKING:
    from scrapy.statscollectors import StatsCollector

__all__ = ["RequestCounts"]

DELAY = 0.1
"""Seconds after which a count is in the stats."""


class RequestCounts:
    """Counts in Scrapy's stats, a moment late.

    A stats collector of Scrapy 2.19 takes 1.4 µs to increase a stat by 1 or by 100, and
    each request is counted four times.
    """

    def __init__(self, stats: StatsCollector) -> None:
        self._stats = stats
        self._fresh = Counter[str]()
        self._timer = Timer(self.write)

    def add(self, stat: str, count: int = 1) -> None:
        """Increase a stat, by 1 as a rule."""
        if not self._fresh:
            self._timer.set(DELAY)
        self._fresh[stat] += count

    def write(self) -> None:
        """Bring the stats up to date."""
        self._timer.cancel()
        fresh, self._fresh = self._fresh, Counter()
        for stat, count in fresh.items():
            self._stats.inc_value(stat, count)
