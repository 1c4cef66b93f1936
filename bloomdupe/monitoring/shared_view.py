"""SharedView: a crawl that workers share on Redis, read again and again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.progress.history import Point
from bloomdupe.crawl.progress.pace import RECENT, per_minute, recent, since, time_to_go
from bloomdupe.errors import StoreUnreachableError
from bloomdupe.jobs.shared_overview import RUNNING, open_crawl, shared_overview

if TYPE_CHECKING:
    from typing_extensions import Self

    from bloomdupe.jobs.shared_overview import SharedOverview

__all__ = ["SharedReader", "SharedView"]

MINUTE = 60.0
MOST_SLOTS = 100
"""Slots that are printed as JSON."""


@dataclass(frozen=True)
class SharedView:
    """A crawl, and its history since a reader began."""

    crawl: SharedOverview
    points: list[Point]
    """A point for each read, oldest first; their times are those of a monotonic clock.
    """
    paces: dict[str, float]
    """Pages a second over the last minute, for each worker seen in two reads."""
    trouble: str | None = None
    """The reason why Redis did not answer this time; all else is from the last answer.
    """

    @property
    def running(self) -> bool:
        """Whether workers are running."""
        return self.crawl.state == RUNNING

    @property
    def rate(self) -> float | None:
        """Pages a second, during the last minute; None after the first read."""
        found = per_minute(since(self.points, MINUTE), self.points[-1])
        return None if found is None else max(0.0, found / MINUTE)

    @property
    def to_go(self) -> float | None:
        """Estimated seconds until no request is left; None: unknown."""
        if not self.running:
            return None
        return time_to_go(recent(self.points), self.points[-1])

    def as_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON."""
        workers = [
            {**worker._asdict(), "pages_per_second": self.paces.get(worker.name)}
            for worker in self.crawl.workers
        ]
        return {
            "path": self.crawl.url,
            "identity": self.crawl.identity,
            "capacity": self.crawl.capacity,
            "keys": self.crawl.keys,
            "job": self.crawl.job(),
            "pages_per_second": self.rate,
            "seconds_to_go": self.to_go,
            "workers": workers,
            "slots": dict(self.crawl.largest(MOST_SLOTS)),
        }


class SharedReader:
    """Reads a crawl on Redis as often as needed, and keeps its history."""

    def __init__(self, url: str) -> None:
        self._reader = open_crawl(url)
        self._view: SharedView | None = None
        self._done: dict[int, tuple[str, int]] = {}
        """The owner of each partition, and its number of finished requests."""
        self._by: Counter[str] = Counter()
        """Finished requests since the first read, by worker."""
        self._looks: list[tuple[float, Counter[str]]] = []

    def close(self) -> None:
        """Close the connection."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self) -> SharedView:
        """Read the crawl.

        If Redis does not answer, but has answered before, the last view comes again
        with the ``trouble``. Raises the other errors of :func:`shared_overview`.
        """
        try:
            crawl = shared_overview(self._reader)
        except StoreUnreachableError as error:
            if self._view is None:
                raise
            self._view = replace(self._view, trouble=str(error))
            return self._view
        now = monotonic()
        points = [] if self._view is None else self._view.points
        begun = points[0].time - points[0].seconds if points else now
        kept = [point for point in points if now - point.time <= RECENT]
        point = _point(crawl, now, now - begun)
        self._view = SharedView(crawl, [*kept, point], self._paces(crawl, now))
        return self._view

    def _paces(self, crawl: SharedOverview, now: float) -> dict[str, float]:
        """Count finished requests by worker, and return pages a second by worker.

        Requests of a partition that changes its owner between two reads are not
        counted.
        """
        for one in crawl.partitions:
            owner, done = self._done.get(one.number, ("", 0))
            if owner and owner == one.owner:
                self._by[owner] += max(0, one.done - done)
            self._done[one.number] = one.owner, one.done
        names = {worker.name for worker in crawl.workers}
        self._by = Counter({name: self._by[name] for name in names})
        self._looks.append((now, self._by.copy()))
        while len(self._looks) > 2 and now - self._looks[1][0] >= MINUTE:
            del self._looks[0]
        paces = {}
        for name in names:
            then, before = next(look for look in self._looks if name in look[1])
            if now > then:
                paces[name] = (self._by[name] - before[name]) / (now - then)
        return paces


def _point(crawl: SharedOverview, now: float, seconds: float) -> Point:
    """Return a point of a history; values that Redis does not know are 0."""
    nothing: dict[str, Any] = dict.fromkeys(Point._fields, 0)
    known = {
        "time": now,
        "run": 1,
        "seconds": seconds,
        "pages": crawl.done,
        "seen": crawl.keys,
        "pending": crawl.pending,
        "leased": crawl.leased,
        "slots": len(crawl.slots),
        "statuses": [],
        "memory": crawl.memory,
    }
    return Point(**{**nothing, **known})
