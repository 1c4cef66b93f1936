"""Totals: counts over all runs of a crawl."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.statscollectors import StatsCollector

    from bloomdupe.crawl.leases.outcomes import Outcome

__all__ = ["DEEPEST", "Totals"]

DEEPEST = 100
"""Greatest depth that is counted by itself."""


@dataclass(frozen=True)
class Totals:
    """Counts of settled requests; a page fetched again after a crash counts once."""

    runs: int = 0
    """Runs that had work to do."""
    pages: int = 0
    """Responses received, to requests of the scheduler."""
    bytes: int = 0
    """Of their bodies, decompressed."""
    items: int = 0
    duplicates: int = 0
    """Requests dropped because their URL was seen; again after a crash."""
    statuses: dict[str, int] = field(default_factory=dict)
    """Pages by HTTP status."""
    depths: dict[str, int] = field(default_factory=dict)
    """Pages by their number of links from a start page; deeper pages count as
    ``DEEPEST``.
    """
    seconds: float = 0.0

    @classmethod
    def of(cls, record: dict[str, Any]) -> Totals:
        """Read the stored totals, perhaps of an older version."""
        return cls(**{name: record[name] for name in asdict(cls()) if name in record})

    def plus(
        self, outcomes: Iterable[Outcome], seconds: float, duplicates: int
    ) -> Totals:
        """Return the totals with the counts of settled requests added."""
        pages, size, items = self.pages, self.bytes, self.items
        statuses, depths = dict(self.statuses), dict(self.depths)
        for outcome in outcomes:
            pages += outcome.pages
            size += outcome.body_bytes
            items += outcome.items
            for status, depth in outcome.answers:
                _count(statuses, status)
                _count(depths, min(depth, DEEPEST))
        return Totals(
            self.runs, pages, size, items, duplicates, statuses, depths, seconds
        )

    @property
    def record(self) -> dict[str, Any]:
        """Return the totals to store."""
        return asdict(self)

    def show(self, stats: StatsCollector) -> None:
        """Set the stats."""
        stats.set_value("bloomdupe/runs", self.runs)
        for name in ("pages", "bytes", "items"):
            stats.set_value(f"bloomdupe/total_{name}", getattr(self, name))
        stats.set_value("bloomdupe/total_seconds", round(self.seconds, 3))


def _count(counts: dict[str, int], what: int) -> None:
    name = str(what)
    counts[name] = counts.get(name, 0) + 1
