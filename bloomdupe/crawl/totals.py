"""Totals: counts over all runs of a crawl."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.statscollectors import StatsCollector

    from bloomdupe.crawl.leases.outcomes import Outcome

DEEPEST = 100
"""Greatest depth that is counted by itself."""
MOST_SLOTS = 500
"""Slots that are counted by themselves, the first with a page: every checkpoint writes
their counts."""
_SUMS = ("pages", "bytes", "items", "duplicates")


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
    by_slot: dict[str, list[int]] = field(default_factory=dict)
    """Pages and their bytes, of the first ``MOST_SLOTS`` slots."""

    @classmethod
    def of(cls, record: dict[str, Any]) -> Totals:
        """Read the stored totals; an empty record has none."""
        return cls(**record)

    @classmethod
    def together(cls, parts: Iterable[Totals]) -> Totals:
        """Return the totals of a crawl of which each part has a share of the pages."""
        whole = cls()
        for one in parts:
            sums = {name: getattr(whole, name) + getattr(one, name) for name in _SUMS}
            whole = cls(
                runs=max(whole.runs, one.runs),
                seconds=max(whole.seconds, one.seconds),
                statuses=dict(Counter(whole.statuses) + Counter(one.statuses)),
                depths=dict(Counter(whole.depths) + Counter(one.depths)),
                by_slot=whole.by_slot | one.by_slot,
                **sums,
            )
        return whole

    def plus(
        self, outcomes: Iterable[Outcome], seconds: float, duplicates: int
    ) -> Totals:
        """Return the totals with the counts of settled requests added."""
        pages, total, items = self.pages, self.bytes, self.items
        statuses, depths = dict(self.statuses), dict(self.depths)
        by_slot = dict(self.by_slot)
        for outcome in outcomes:
            items += outcome.items
            for status, depth, slot, size in outcome.answers:
                pages += 1
                total += size
                _count(statuses, status)
                _count(depths, min(depth, DEEPEST))
                before = by_slot.get(slot)
                if before is not None:
                    by_slot[slot] = [before[0] + 1, before[1] + size]
                elif len(by_slot) < MOST_SLOTS:
                    by_slot[slot] = [1, size]
        return Totals(
            self.runs, pages, total, items, duplicates, statuses, depths, seconds,
            by_slot,
        )  # fmt: skip

    @property
    def statuses_by_hundred(self) -> list[int]:
        """Pages with status 1xx, 2xx, 3xx, 4xx, 5xx or above."""
        found = [0] * 5
        for status, pages in self.statuses.items():
            found[min(max(int(status) // 100, 1), 5) - 1] += pages
        return found

    @property
    def record(self) -> dict[str, Any]:
        """Return the totals to store."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def show(self, stats: StatsCollector) -> None:
        """Set the stats."""
        stats.set_value("bloomdupe/runs", self.runs)
        for name in ("pages", "bytes", "items"):
            stats.set_value(f"bloomdupe/total_{name}", getattr(self, name))
        stats.set_value("bloomdupe/total_seconds", round(self.seconds, 3))


def _count(counts: dict[str, int], what: int) -> None:
    name = str(what)
    counts[name] = counts.get(name, 0) + 1
