"""View: all data about a job that can be shown, read from its store."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.leases.failure import Failure
from bloomdupe.crawl.progress.history import Point, Ran, read_history
from bloomdupe.crawl.progress.pace import per_minute, recent, since, time_to_go
from bloomdupe.crawl.totals import Totals
from bloomdupe.errors import StoreError
from bloomdupe.frontier.pending_requests import slots_of
from bloomdupe.jobs.overview import Overview, overview
from bloomdupe.store.format import FAILURES
from bloomdupe.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Failed", "Reader", "View"]


@dataclass(frozen=True)
class Failed:
    """Failed requests."""

    requests: list[Failure]
    """Failed requests that were not retried since, latest first."""
    left: int
    """Number of failed requests that were removed because there were too many."""

    @property
    def reasons(self) -> Counter[str]:
        """Count them by reason; each HTTP status is a reason."""
        return Counter(
            f"HTTP {one.status}" if one.reason == "status" else one.reason
            for one in self.requests
        )

    @property
    def slots(self) -> Counter[str]:
        """Count them by slot."""
        return Counter(one.slot for one in self.requests)


@dataclass(frozen=True)
class View:
    """A job, as of its last checkpoint."""

    path: Path
    spider: str
    capacity: int
    """Expected URLs of the filter."""
    job: Overview
    totals: Totals
    slots: list[tuple[str, int]]
    """Names of slots, and requests in them."""
    failed: Failed
    points: list[Point]
    runs: list[Ran]

    @property
    def running(self) -> bool:
        """Whether a process runs the job."""
        return self.job.process is not None

    @property
    def last(self) -> Point | None:
        """The last point of the history; None in a job of an earlier version."""
        return self.points[-1] if self.points else None

    @property
    def rate(self) -> float | None:
        """Pages a minute, during the last minute of the last run."""
        if not self.points:
            return None
        return per_minute(since(self.points, 60.0), self.points[-1])

    @property
    def to_go(self) -> float | None:
        """Estimated seconds until no request is pending; None: unknown."""
        if not (self.running and self.points):
            return None
        return time_to_go(recent(self.points), self.points[-1])

    def as_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON."""
        point = None if self.last is None else self.last._asdict()
        return {
            "job": self.job.as_dict(),
            "totals": self.totals.record,
            "last_point": point,
            "pages_per_minute": self.rate,
            "seconds_to_go": self.to_go,
            "failed": dict(self.failed.reasons),
            "failures_left": self.failed.left,
            "slots": dict(sorted(self.slots, key=lambda slot: -slot[1])[:100]),
            "runs": [ran._asdict() for ran in self.runs],
        }


class Reader:
    """Reads a job as often as needed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ledger: list[int] = []
        self._failures: list[Failure] = []

    def read(self) -> View:
        """Read the last checkpoint.

        Raises the errors of opening a store, and :class:`StoreError` if no crawl has
        used it.
        """
        job = overview(self._path)
        if job is None:
            raise StoreError(
                f"{self._path}: no crawl has used this store; `bloomdupe info"
                f" {self._path}` says what is in it"
            )
        store = Store.open(self._path, readonly=True, network=True)
        try:
            with store.snapshot() as snapshot:
                crawl = snapshot.record("crawl") or {}
                points, runs = read_history(snapshot)
                ledger = store.totals.get(FAILURES, [0, 0])
                if ledger != self._ledger:  # they may be many, and rarely change
                    found = [Failure.unpacked(data) for _, data in snapshot.failures()]
                    self._failures = sorted(found, key=lambda one: -one.time)
                    self._ledger = ledger
            slots = [(slot.name, slot.requests) for slot in slots_of(store)]
            header = store.header
        finally:
            store.close()
        failed = [one for one in self._failures if not one.waiting]
        return View(
            path=self._path,
            spider=str(header.get("identity", {}).get("spider")),
            capacity=header["capacity"],
            job=job,
            totals=Totals.of(crawl.get("totals", {})),
            slots=slots,
            failed=Failed(failed, crawl.get("failures_left", 0)),
            points=points,
            runs=runs,
        )
