"""View: all data about a job that can be shown."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.crawl.leases.failure import in_words
from bloomdupe.crawl.progress.pace import per_minute, recent, since, time_to_go
from bloomdupe.jobs.state import SILENT, WAITING

if TYPE_CHECKING:
    from bloomdupe.crawl.leases.failure import Failure
    from bloomdupe.crawl.progress.history import Point, Ran
    from bloomdupe.filter.info import FilterInfo, StoredFilter
    from bloomdupe.jobs.overview import Overview
    from bloomdupe.jobs.selection import Selection

MINUTE = 60.0
GONE = {"404", "410"}
"""Reasons of failures that a retry does not mend."""


class ListedRequest(NamedTuple):
    """A request that is pending or in progress."""

    slot: str
    method: str
    url: str
    priority: int
    callback: str | None
    not_before: float | None = None
    """Unix time before which it is not fetched."""
    problem: str | None = None
    """The reason why it cannot be read."""
    payload: bytes | None = None
    """The stored request, if it has more than that."""


class FailureGroup(NamedTuple):
    """Failed requests with the same cause, exception and slot."""

    requests: int
    reason: str
    status: int | None
    exception: str
    slot: str
    time: float
    """Unix time of the latest of these failures."""
    url: str
    """The URL of that request."""

    @property
    def cause(self) -> str:
        """The reason, with the status if there was a response."""
        return in_words(self.reason, self.status)


@dataclass(frozen=True)
class FailedRequests:
    """Failed requests."""

    requests: list[Failure]
    """Failed requests that were not retried since, latest first."""
    left: int = 0
    """Number of failed requests that were removed because there were too many."""

    def selected(self, selection: Selection, reasons: tuple[str, ...]) -> list[Failure]:
        """Return those that failed for these reasons (() are all)."""
        return [
            one
            for one in self.requests
            if one.is_for(reasons) and selection.has(one.slot, one.url)
        ]

    @property
    def reasons(self) -> Counter[str]:
        """Count them by reason; each HTTP status is a reason."""
        return Counter(one.cause for one in self.requests)

    @property
    def slots(self) -> Counter[str]:
        """Count them by slot."""
        return Counter(one.slot for one in self.requests)

    @property
    def option(self) -> str:
        """The setting with which a run retries them; empty if all pages are gone."""
        options = sorted({one.option for one in self.requests} - GONE)
        return f"BLOOMDUPE_RETRY_FAILED={','.join(options)}" if options else ""

    @property
    def groups(self) -> list[FailureGroup]:
        """The same requests by reason, exception and slot, the largest group first."""
        groups: dict[tuple[str, int | None, str, str], list[Failure]] = {}
        for one in self.requests:
            name = (one.reason, one.status, one.exception, one.slot)
            groups.setdefault(name, []).append(one)
        found = []
        for name, members in groups.items():
            latest = max(members, key=lambda one: one.time)
            found.append(FailureGroup(len(members), *name, latest.time, latest.url))
        return sorted(found, key=lambda group: -group.requests)


@dataclass(frozen=True)
class View:
    """A job, and its recent points."""

    place: str
    """The directory of the store, or the URL without the password."""
    identity: dict[str, Any]
    capacity: int
    """Expected URLs of the filter."""
    job: Overview
    points: list[Point]
    """Points of the history."""
    failed: FailedRequests
    runs: list[Ran]
    """The runs of the job, the latest last."""
    trouble: str | None = None
    """The reason why the job could not be read this time; all else is older then."""

    @property
    def spider(self) -> str:
        """The name of the spider, or the place of the job."""
        return str(self.identity.get("spider", self.place))

    @property
    def last(self) -> Point | None:
        """The last point of the history; None in a job that has not run."""
        return self.points[-1] if self.points else None

    @property
    def present(self) -> list[Point]:
        """The points, and how the job stands now, if a crawl has it.

        Without a sign of life, it stands as at its last checkpoint. While nothing
        changes, such as during a rest, no checkpoint is written, and so there are no
        new points.
        """
        last, job = self.last, self.job
        if last is None or not job.state.has_crawl:
            return self.points
        times = [job.checkpoint_at]
        if job.state.name != SILENT:
            times.append(job.state.read_at)
        return [
            *self.points,
            *(
                last._replace(
                    time=moment,
                    seconds=last.seconds + moment - last.time,
                    pages=job.pages,
                    pending=job.pending - job.later,
                    leased=0,
                    later=job.later,
                    resting=len(job.at_rest),
                    slowest=max(0.0, last.slowest - (moment - last.time)),
                )
                for moment in times
                if moment > last.time
            ),
        ]

    @property
    def seconds(self) -> float:
        """Seconds that the crawl was running, over all runs."""
        points = self.present
        return points[-1].seconds if points else self.job.totals.seconds

    @property
    def rate(self) -> float | None:
        """Pages a minute, during the last minute of the last run."""
        points = self.present
        if not points:
            return None
        found = per_minute(since(points, MINUTE), points[-1])
        return None if found is None else max(0.0, found)

    @property
    def to_go(self) -> float | None:
        """Estimated seconds until no request is pending; None: unknown.

        It takes until the end of the last rest, at least.
        """
        points, job = self.present, self.job
        state = job.state
        if not (state.has_crawl and points) or state.name == WAITING:
            return None
        if not job.slots.keys().isdisjoint(job.paused):
            return None  # until they are resumed
        left = time_to_go(recent(points), points[-1])
        if left is None:
            return None
        now = state.read_at
        return max([left, *(one.until - now for one in job.resting.values())])

    def as_dict(self) -> dict[str, Any]:
        """Return the figures of the job as plain types, for JSON."""
        return {
            **self.job.as_dict(),
            "failed": dict(self.failed.reasons.most_common()),
            "failures_left": self.failed.left,
            "pages_per_minute": self.rate,
            "seconds_to_go": self.to_go,
            "totals": self.job.totals.record,
            "last_point": None if self.last is None else self.last._asdict(),
        }


class Description(NamedTuple):
    """A filter, the identity of its job, and the job, if it has one."""

    filter: StoredFilter | FilterInfo
    identity: dict[str, Any]
    view: View | None

    def as_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON."""
        job = None if self.view is None else self.view.as_dict()
        return {**self.filter.as_dict(), "identity": self.identity, "job": job}
