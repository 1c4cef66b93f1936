"""SharedView: a crawl that workers share on Redis, looked at again and again."""

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
"""That are printed as JSON."""


@dataclass(frozen=True)
class SharedView:
    """A crawl, and what a reader has seen of it since it began to look."""

    crawl: SharedOverview
    points: list[Point]
    """One for each look, oldest first; their times are of a clock of their own."""
    paces: dict[str, float]
    """Pages a second of each worker that was there for two looks, in a minute."""
    trouble: str | None = None
    """Why Redis did not answer this time; all else is from the time before."""

    @property
    def running(self) -> bool:
        """Whether workers are at work."""
        return self.crawl.state == RUNNING

    @property
    def rate(self) -> float | None:
        """Pages a second, during the last minute; None: that was the first look."""
        found = per_minute(since(self.points, MINUTE), self.points[-1])
        return None if found is None else max(0.0, found / MINUTE)

    @property
    def to_go(self) -> float | None:
        """Seconds until nothing is owed, as things go; None: nobody can say."""
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
    """Reads a crawl on Redis as often as one likes, and keeps how it has gone."""

    def __init__(self, url: str) -> None:
        self._reader = open_crawl(url)
        self._view: SharedView | None = None
        self._done: dict[int, tuple[str, int]] = {}
        """Of each partition its owner, and how many requests were done."""
        self._by: Counter[str] = Counter()
        """How many were done since the first look, by worker."""
        self._looks: list[tuple[float, Counter[str]]] = []

    def close(self) -> None:
        """Close the connection."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self) -> SharedView:
        """Look at it.

        If Redis does not answer, but has answered before, the last view comes again,
        and says so. Raises what :func:`shared_overview` raises besides.
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
        """Take note of who has done what, and return pages a second by worker.

        What is done in a partition that changes hands between two looks counts for
        nobody.
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
    """Return a look as a point of a history; what Redis does not know is 0."""
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
