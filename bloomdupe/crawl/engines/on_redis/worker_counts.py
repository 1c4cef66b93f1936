"""WorkerCounts: the totals of one worker of a shared crawl."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from bloomdupe.crawl.totals import Totals

if TYPE_CHECKING:
    from scrapy.statscollectors import StatsCollector

    from bloomdupe.crawl.leases.outcomes import Outcome

__all__ = ["WorkerCounts"]


class WorkerCounts:
    """Counts the outcomes of the requests that this worker has settled."""

    def __init__(self, stats: StatsCollector) -> None:
        self._stats = stats
        self._begun = monotonic()
        self._totals = Totals(runs=1)
        self._settled: list[Outcome] = []

    def settle(self, outcome: Outcome) -> None:
        """Let an outcome count."""
        self._settled.append(outcome)

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
