"""History: the status of a crawl over time, and how its runs have ended.

In the table ``history`` of the store stands a msgpack array for each point, with the
fields of :class:`Point` in their order. A run has a point at its beginning, and one at
its end, unless it was killed.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, fields
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack  # type: ignore[import-untyped]

from bloomdupe.crawl.progress.rounds import OPEN
from bloomdupe.store.format import HISTORY
from bloomdupe.store.store import Participant, Unwritten

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy.statscollectors import StatsCollector

    from bloomdupe.crawl.in_flight.outcomes import Outcome
    from bloomdupe.store.snapshot import Snapshot
    from bloomdupe.store.store import Part, Store


DAY = 86_400
TIERS = ((600.0, 5), (DAY, 60), (60 * DAY, 3_600), (math.inf, DAY))
"""Up to which age, in seconds, there is a point in how many seconds. For a year that
makes 3,400 points, each 130 bytes and as much again in half-empty pages of LMDB."""

MOST_RUNS = 500
"""Number of runs that are remembered, the newest."""

MOMENT = Struct(">QQ")
"""Key of a point: milliseconds of Unix time, and the number of the run."""


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

    @property
    def key(self) -> bytes:
        """Key of the point in the store."""
        return MOMENT.pack(int(self.time * 1000), self.run)


class Ran(NamedTuple):
    """One run of a job."""

    number: int
    """From 1."""
    begun: float
    """Unix time."""
    ended: float | None
    """The same; of a run that was killed, or is running, None."""
    how: str
    """Scrapy's reason; ``open`` while it runs, and if it was killed."""


def read_history(snapshot: Snapshot) -> tuple[list[Point], list[Ran]]:
    """Return points and runs of a store, each in their order."""
    points = [Point(*msgpack.unpackb(data)) for _, data in snapshot.records(HISTORY)]
    by_run: dict[int, list[Point]] = {}
    for point in points:
        by_run.setdefault(point.run, []).append(point)
    runs = []
    for number, some in sorted(by_run.items())[-MOST_RUNS:]:
        end = next((point for point in some if point.how), None)
        ended, how = (None, OPEN) if end is None else (end.time, end.how)
        runs.append(Ran(number, some[0].time, ended, how))
    return points, runs


def surplus(keys: Sequence[bytes], now: float) -> list[bytes]:
    """Return the superfluous points, given all of them, in order, at Unix time now.

    The first point of each stretch of time stays, and so do the first and the last
    point of each remembered run.
    """
    gone = []
    bucket = before = None
    moments = [MOMENT.unpack(key) for key in keys]
    runs = [run for _, run in moments]
    newest = max(runs, default=0)
    for key, (milliseconds, run), after in zip(
        keys, moments, [*runs[1:], None], strict=True
    ):
        seconds = milliseconds / 1000
        step = next(step for age, step in TIERS if now - seconds <= age)
        place = (step, seconds // step)
        edge = before != run or after != run
        remembered = run > newest - MOST_RUNS
        if place == bucket and not (edge and remembered):
            gone.append(key)
        bucket, before = place, run
    return gone


class History(Participant):
    """Points of a job, part of the checkpoint.

    Only the keys of those that are stored are in memory.
    """

    def __init__(self, store: Store) -> None:
        with store.snapshot() as snapshot:
            self._keys = {key for key, _ in snapshot.records(HISTORY)}
        self._changes = Unwritten(HISTORY)
        self._tidied = 0.0

    def add(self, point: Point) -> None:
        """Add a point, and now and then remove surplus points."""
        self._keys.add(point.key)
        self._changes[point.key] = msgpack.packb(list(point))
        if point.time - self._tidied > TIERS[1][1] or point.time < self._tidied:
            self._tidied = point.time
            gone = surplus(sorted(self._keys), point.time)
            self._keys.difference_update(gone)
            self._changes |= dict.fromkeys(gone)

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
        total = cls()
        for one in parts:
            sums = {name: getattr(total, name) + getattr(one, name) for name in _SUMS}
            total = cls(
                runs=max(total.runs, one.runs),
                seconds=max(total.seconds, one.seconds),
                statuses=dict(Counter(total.statuses) + Counter(one.statuses)),
                by_slot=total.by_slot | one.by_slot,
                **sums,
            )
        return total

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

    @property
    def record(self) -> dict[str, Any]:
        """Return the totals to store: the arguments that make them again."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def show(self, stats: StatsCollector) -> None:
        """Set the stats."""
        stats.set_value("bloomdupe/runs", self.runs)
        for name in ("pages", "bytes", "items"):
            stats.set_value(f"bloomdupe/total_{name}", getattr(self, name))
        stats.set_value("bloomdupe/total_seconds", round(self.seconds, 3))
