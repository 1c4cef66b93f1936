"""Adding: makes requests pending by hand, through the filter of a job or past it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.crawl.added_requests import Asked
from bloomdupe.jobs.request_line import brought_back

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bloomdupe.jobs.added import Added
    from bloomdupe.jobs.job_contract import ChangingJob
    from bloomdupe.jobs.request_line import Wanted
    from bloomdupe.jobs.selection import Selection

MOST_AT_ONCE = 1_000
"""Requests that are added at once, so that a running crawl need not stop for long."""
MOST_BYTES = 1 << 20
"""Bytes of the stored requests that are added at once, unless one has more."""


def add(found: Iterable[Wanted], job: ChangingJob, added: Added) -> None:
    """Add requests that were not seen, in a transaction for every thousand.

    After an interruption, committed requests stay, and count as seen the next time.
    """
    for portion in _portions(_asked(found, job)):
        job.add(portion, added)


def requeue(
    found: Iterable[Wanted], job: ChangingJob, selection: Selection, added: Added
) -> None:
    """Make finished pages pending again, in one transaction.

    Memory grows with the given requests, about 1 kB each.
    """
    requests = [
        one._replace(payload=brought_back(one.payload))
        for one in _asked(found, job)
        if selection.has(one.slot, one.url)
    ]
    job.requeue(requests, added)


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


def _portions(asked: Iterable[Asked]) -> Iterator[list[Asked]]:
    portion: list[Asked] = []
    size = 0
    for one in asked:
        portion.append(one)
        size += len(one.payload)
        if len(portion) == MOST_AT_ONCE or size >= MOST_BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion
