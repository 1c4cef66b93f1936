"""Adding: makes requests pending by hand, through the filter of a job or past it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.crawl.changes.change import Asked
from bloomdupe.jobs.request_line import brought_back

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bloomdupe.crawl.changes.selection import Selection
    from bloomdupe.jobs.added import Added
    from bloomdupe.jobs.job_contract import ChangingJob
    from bloomdupe.jobs.request_line import Wanted

MOST_AT_ONCE = 1_000
"""Requests that one change adds, so that a running crawl need not stop for long."""
MOST_BYTES = 1 << 20
"""Bytes of the stored requests that one change adds, unless a single one has more."""


def add(found: Iterable[Wanted], job: ChangingJob, added: Added) -> None:
    """Add requests that were not seen, in a transaction for every thousand.

    After an interruption, committed requests stay, and count as seen the next time.
    """
    for portion, more in _portions(_asked(found, job)):
        requests = [one.values for one in portion]
        names = ("taken_in", "seen", "blocked")
        so_far = {name: getattr(added, name) for name in names}
        change = {"kind": "add", "requests": requests, "more": more, "so_far": so_far}
        made = job.make(change)
        added.count(made.answer, taken_up=made.taken_up)


def requeue(
    found: Iterable[Wanted], job: ChangingJob, selection: Selection, added: Added
) -> None:
    """Make finished pages pending again, in one transaction.

    Memory grows with the given requests, about 1 kB each.
    """
    requests = [
        one._replace(payload=brought_back(one.payload)).values
        for one in _asked(found, job)
        if selection.has(one.slot, one.url)
    ]
    made = job.make({"kind": "requeue", "requests": requests})
    added.count(made.answer, taken_up=made.taken_up)


def requeue_failed(
    job: ChangingJob, selection: Selection, reasons: tuple[str, ...], added: Added
) -> None:
    """Make failed requests pending again, in one transaction."""
    change = {"kind": "requeue failed", **selection.values, "reasons": reasons}
    made = job.make(change)
    added.count(made.answer, taken_up=made.taken_up)


def _asked(found: Iterable[Wanted], job: ChangingJob) -> Iterator[Asked]:
    for one in found:
        key, exact = job.project.key_of(one.request)
        yield Asked(
            one.request.url,
            key,
            exact,
            one.slot,
            one.request.priority,
            one.payload,
            one.start,
            one.request.dont_filter,
            one.not_before,
        )


def _portions(asked: Iterable[Asked]) -> Iterator[tuple[list[Asked], bool]]:
    """Yield portions, and whether there are more."""
    portion: list[Asked] = []
    size = 0
    for one in asked:
        portion.append(one)
        size += len(one.payload)
        if len(portion) == MOST_AT_ONCE or size >= MOST_BYTES:
            yield portion, True
            portion, size = [], 0
    yield portion, False
