"""WorkerCounts: the totals of one worker, and its part of those of all workers."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from bloomdupe.crawl.engines.on_redis.shared_totals import counts_of
from bloomdupe.crawl.totals import Totals

if TYPE_CHECKING:
    from scrapy.statscollectors import StatsCollector

    from bloomdupe.crawl.leases.outcomes import Outcome
    from bloomdupe.redis.settled.tally import Numbers

__all__ = ["WorkerCounts"]


class WorkerCounts:
    """Counts the outcomes of the requests that this worker has settled."""

    known = 0
    """Requests that Redis has dropped as duplicates, of those that the stats count."""

    def __init__(self, stats: StatsCollector) -> None:
        self._stats = stats
        self._begun = monotonic()
        self._totals = Totals(runs=1)
        self._settled: list[Outcome] = []
        self._told = 0
        """Duplicates that were dropped here, and count for all workers."""

    def settle(self, *outcomes: Outcome) -> Numbers:
        """Let outcomes count; return the counts to add to those of all workers."""
        self._settled += outcomes
        told, self._told = self._told, self.duplicates - self.known
        return counts_of(Totals().plus(outcomes, 0.0, self._told - told))

    @property
    def totals(self) -> Totals:
        """The totals of this worker."""
        settled, self._settled = self._settled, []
        self._totals = self._totals.plus(settled, self.seconds, self.duplicates)
        return self._totals

    @property
    def seconds(self) -> float:
        """Seconds since this worker began."""
        return monotonic() - self._begun

    @property
    def duplicates(self) -> int:
        """Requests that this worker, or Redis, has dropped as duplicates."""
        dropped: int = self._stats.get_value("dupefilter/filtered", 0)
        return dropped
