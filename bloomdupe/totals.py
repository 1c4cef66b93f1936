"""Totals: what all runs of a crawl have done together."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrapy.statscollectors import StatsCollector

    from bloomdupe.outcomes import Outcome

__all__ = ["Totals"]


@dataclass
class Totals:
    """Counts of what is settled: a page that is fetched again after a crash is one."""

    runs: int = 0
    pages: int = 0
    """Responses received, to requests of the scheduler."""
    bytes: int = 0
    """Of their bodies, decompressed."""
    items: int = 0
    start_items: int = 0
    """Items that came from ``Spider.start()``, or were dropped on their way."""
    seconds: float = 0.0

    def add(self, outcome: Outcome) -> None:
        """Add what a settled request has done."""
        self.pages += outcome.pages
        self.bytes += outcome.body_bytes
        self.items += outcome.items
        self.start_items += outcome.start_items

    @property
    def record(self) -> dict[str, Any]:
        """Return what the store has to keep."""
        return asdict(self)

    def tell(self, stats: StatsCollector) -> None:
        """Set the stats."""
        stats.set_value("bloomdupe/runs", self.runs)
        for name in ("pages", "bytes", "items"):
            stats.set_value(f"bloomdupe/total_{name}", getattr(self, name))
        stats.set_value("bloomdupe/total_seconds", round(self.seconds, 3))
