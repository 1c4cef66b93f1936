"""History: the status of a crawl over time, and how its runs have ended.

In the table ``history`` of the store stands a msgpack array for each point, with the
fields of :class:`Point` in their order. Its key is that of a place that later points
overwrite: see :class:`History`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import msgpack  # type: ignore[import-untyped]

from bloomdupe.store.format import HISTORY
from bloomdupe.store.store import Participant, Unwritten

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.statscollectors import StatsCollector

    from bloomdupe.crawl.in_flight.outcomes import Outcome
    from bloomdupe.store.snapshot import Snapshot
    from bloomdupe.store.store import Part


TIERS = ((5, 120), (60, 1_440), (3_600, 1_440), (86_400, 10_000))
"""Seconds of a stretch of time of which the last point stays, and of how many
stretches. For a year that makes 3,400 points, each 130 bytes and as much again in
half-empty pages of LMDB."""

MOST_RUNS = 500
"""Number of runs of which the first and the last point stay: the latest runs."""

PLACE = Struct(">BQ")
"""Key of a point: its tier, and the number of its stretch among those of the tier. Or
what it is of a run (``BEGIN``, ``END``), and the rest of its number."""
BEGIN, END = 0x80, 0x81


class Point(NamedTuple):
    """State of a crawl at a moment; counts are over all runs."""

    time: float
    """Unix time."""
    run: int
    """Number of the run, from 1."""
    seconds: float
    """Seconds that the crawl was running."""
    pages: int
    items: int
    duplicates: int
    """Requests dropped because their URL was seen."""
    seen: int
    """URLs in the filter."""
    pending: int
    """Pending requests."""
    in_flight: int
    """Requests in flight."""
    slots: int
    """Slots (hosts) with requests that are pending or in flight."""
    failed: int
    """Failed requests."""
    fpp: float
    """False-positive probability of the filter, calculated."""
    loss: float
    """New URLs lost to false positives, expected number."""
    checkpoint: float
    """Seconds of the longest checkpoint since the point before."""
    disk: int
    """Bytes that the store takes on the disk."""
    free: int
    """Bytes that are free there."""
    memory: int
    """Bytes of memory that the process uses."""
    delayed: int
    """Delayed requests; not among the pending requests."""
    backing_off: int
    """Slots with pending requests that back off."""
    slowest: float
    """Seconds that the slowest slot takes at least, by its delay and its backoff."""
    how: str
    """Scrapy's reason, if the run has ended here; else empty."""


def read_history(snapshot: Snapshot) -> list[Point]:
    """Return the points of a store in their order."""
    stored = (Point(*msgpack.unpackb(data)) for _, data in snapshot.records(HISTORY))
    return sorted({*stored})  # one may have several places


def together(points: list[Point], others: Iterable[list[Point]]) -> list[Point]:
    """Return the points of a worker with the pages of all workers until then."""
    for some in others:
        moments, pages = [one.time for one in some], [0, *(one.pages for one in some)]
        points = [
            one._replace(pages=one.pages + pages[bisect_right(moments, one.time)])
            for one in points
        ]
    return points


class History(Participant):
    """Points of a job, part of the checkpoint.

    A point has a place in each tier, and overwrites the point that had this place in
    the last round of the tier. So no point has to be looked for to be removed. The
    first and the last point of a run have places of their own, likewise.
    """

    def __init__(self) -> None:
        self._changes = Unwritten(HISTORY)

    def add(self, point: Point, *, begins: bool = False) -> None:
        """Add a point, with which a run ``begins``, or goes on."""
        data, changes = msgpack.packb(list(point)), self._changes
        for tier, (seconds, most) in enumerate(TIERS):
            changes[PLACE.pack(tier, int(point.time // seconds) % most)] = data
        if begins:
            changes[PLACE.pack(BEGIN, point.run % MOST_RUNS)] = data
        if point.how:
            changes[PLACE.pack(END, point.run % MOST_RUNS)] = data

    def prepare(self) -> Part:
        """Return the part of the next checkpoint."""
        return self._changes.part()


MOST_SLOTS = 500
"""Slots that are counted by themselves, the first with a page: every checkpoint writes
their counts."""
_SUMS = ("pages", "bytes", "items", "duplicates")


@dataclass(frozen=True)
class Totals:
    """Counts of acked requests; a page fetched again after a crash counts once."""

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
    seconds: float = 0.0
    by_slot: dict[str, list[int]] = field(default_factory=dict)
    """Pages and their bytes, of the first ``MOST_SLOTS`` slots."""

    @classmethod
    def together(cls, parts: Iterable[Totals]) -> Totals:
        """Return the totals of a crawl of which each part has a share of the pages."""
        found = [*parts]
        sums = {name: sum(getattr(one, name) for one in found) for name in _SUMS}
        by_slot: dict[str, list[int]] = {}
        for slot, counts in chain.from_iterable(one.by_slot.items() for one in found):
            before = by_slot.get(slot, [0, 0])
            by_slot[slot] = [n + more for n, more in zip(before, counts, strict=True)]
        return cls(
            runs=max(one.runs for one in found),
            seconds=max(one.seconds for one in found),
            statuses=dict(sum((Counter(one.statuses) for one in found), Counter())),
            by_slot=by_slot,
            **sums,
        )

    def plus(
        self, outcomes: Iterable[Outcome], seconds: float, duplicates: int
    ) -> Totals:
        """Return the totals with the counts of acknowledged requests added."""
        pages, total, items = self.pages, self.bytes, self.items
        statuses = dict(self.statuses)
        by_slot = dict(self.by_slot)
        for outcome in outcomes:
            items += outcome.items
            for status, slot, size in outcome.answers:
                pages += 1
                total += size
                statuses[str(status)] = statuses.get(str(status), 0) + 1
                before = by_slot.get(slot)
                if before is not None:
                    by_slot[slot] = [before[0] + 1, before[1] + size]
                elif len(by_slot) < MOST_SLOTS:
                    by_slot[slot] = [1, size]
        return Totals(
            self.runs, pages, total, items, duplicates, statuses, seconds,
            by_slot,
        )  # fmt: skip

    @property
    def by_class(self) -> dict[str, int]:
        """Pages with status ``1xx``, ``2xx``, ``3xx``, ``4xx``, ``5xx`` or above."""
        found = dict.fromkeys(("1xx", "2xx", "3xx", "4xx", "5xx"), 0)
        for status, pages in self.statuses.items():
            found[f"{min(max(int(status) // 100, 1), 5)}xx"] += pages
        return found

    def show(self, stats: StatsCollector) -> None:
        """Set the stats."""
        stats.set_value("bloomdupe/runs", self.runs)
        for name in ("pages", "bytes", "items"):
            stats.set_value(f"bloomdupe/total_{name}", getattr(self, name))
        stats.set_value("bloomdupe/total_seconds", round(self.seconds, 3))
