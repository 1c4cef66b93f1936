"""History: the status of a crawl over time, and how its runs have ended.

In the table ``history`` of the store stands a msgpack array for each point, with the
fields of :class:`Point` in their order, and one for each run (:class:`Ran`).
"""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass, field, fields
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack  # type: ignore[import-untyped]

from bloomdupe.crawl.progress.rounds import OPEN
from bloomdupe.store.format import HISTORY
from bloomdupe.store.store import Part, Participant

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy.statscollectors import StatsCollector

    from bloomdupe.crawl.in_flight.outcomes import Outcome
    from bloomdupe.store.snapshot import Snapshot
    from bloomdupe.store.store import Store


DAY = 86_400
TIERS = ((600.0, 5), (DAY, 60), (60 * DAY, 3_600), (math.inf, DAY))
"""Up to which age, in seconds, there is a point in how many seconds. For a year that
makes 3,400 points, each 130 bytes and as much again in half-empty pages of LMDB."""

MOST_RUNS = 500
"""Number of runs that are remembered, the newest."""

MOMENT = Struct(">QQ")
"""Key of a record in the table ``history``."""

Moment = tuple[int, int]
"""Milliseconds of Unix time, and the number of the run; of a run itself, 0 and that."""


class Point(NamedTuple):
    """State of a crawl at a moment; counts are over all runs."""

    time: float
    """Unix time."""
    run: int
    """Number of the run, from 1."""
    seconds: float
    """Seconds that the crawl was running."""
    pages: int
    bytes: int
    """Of the pages, decompressed."""
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
    statuses: list[int]
    """Pages with status 1xx, 2xx, 3xx, 4xx, 5xx or above."""
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

    @property
    def moment(self) -> Moment:
        """Key of the point in the store."""
        return int(self.time * 1000), self.run


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
    points = []
    runs = []
    for key, data in snapshot.records(HISTORY):
        milliseconds, _ = MOMENT.unpack(key)
        fields: list[Any] = msgpack.unpackb(data)
        if milliseconds:
            points.append(Point(*fields))
        else:
            runs.append(Ran(*fields))
    return points, runs


def surplus(moments: Sequence[Moment], now: float) -> list[Moment]:
    """Return the superfluous points, given all of them, in order, at Unix time now.

    The first point of each stretch of time stays, and so do the first and the last
    point of each remembered run.
    """
    gone = []
    bucket = before = None
    runs = [run for _, run in moments]
    newest = max(runs, default=0)
    for moment, after in zip(moments, [*runs[1:], None], strict=True):
        seconds = moment[0] / 1000
        step = next(step for age, step in TIERS if now - seconds <= age)
        place = (step, seconds // step)
        edge = before != moment[1] or after != moment[1]
        remembered = moment[1] > newest - MOST_RUNS
        if place == bucket and not (edge and remembered):
            gone.append(moment)
        bucket, before = place, moment[1]
    return gone


class History(Participant):
    """Points and runs of a job, part of the checkpoint.

    Only the moments of the points are in memory.
    """

    def __init__(self, store: Store) -> None:
        with store.snapshot() as snapshot:
            points, runs = read_history(snapshot)
        self._moments = {point.moment for point in points}
        self._runs = {ran.number: ran for ran in runs}
        self._changes: dict[Moment, tuple[Any, ...] | None] = {}
        """Records for the next checkpoint; None: there is none any more."""
        self._begun = 0
        self._tidied = 0.0

    def begin_run(self, number: int) -> None:
        """Begin a run; the previous run has ended, one way or another."""
        self._begun = number
        self._put_run(Ran(number, round(time.time(), 3), None, OPEN))
        for old in sorted(self._runs)[:-MOST_RUNS]:
            del self._runs[old]
            self._changes[0, old] = None

    def end_run(self, reason: str) -> None:
        """Record how the run ends that was begun last."""
        ran = self._runs[self._begun]
        self._put_run(ran._replace(ended=round(time.time(), 3), how=reason))

    def _put_run(self, ran: Ran) -> None:
        self._runs[ran.number] = self._changes[0, ran.number] = ran

    def add(self, point: Point) -> None:
        """Add a point, and now and then remove surplus points."""
        self._moments.add(point.moment)
        self._changes[point.moment] = point
        if point.time - self._tidied > TIERS[1][1] or point.time < self._tidied:
            self._tidied = point.time
            gone = surplus(sorted(self._moments), point.time)
            self._moments.difference_update(gone)
            self._changes |= dict.fromkeys(gone)

    def prepare(self) -> Part:
        """Return the part of the next checkpoint."""
        changes = dict(self._changes)
        records = {
            MOMENT.pack(*moment): None if one is None else msgpack.packb(list(one))
            for moment, one in changes.items()
        }

        def done() -> None:
            for moment, written in changes.items():
                if self._changes[moment] is written:
                    del self._changes[moment]

        return Part(changes={HISTORY: records}, done=done)


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
    def of(cls, record: dict[str, Any]) -> Totals:
        """Read stored totals: a count that is missing is 0, another name goes."""
        known = {one.name for one in fields(cls)} & record.keys()
        return cls(**{name: record[name] for name in known})

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
