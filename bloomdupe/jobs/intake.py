"""Intake: adds requests by hand, through the filter of a job or past it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bloomdupe.jobs.lines import Problems
from bloomdupe.jobs.selection import find
from bloomdupe.jobs.written import brought_back

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bloomdupe.frontier.pending_requests import PendingRequest
    from bloomdupe.jobs.on_disk import StoppedJob
    from bloomdupe.jobs.selection import Selection
    from bloomdupe.jobs.written import Wanted

__all__ = ["Taken", "add", "requeue"]


@dataclass
class Taken:
    """Counts of requests by result."""

    taken_in: int = 0
    """Requests that are pending now."""
    seen: int = 0
    """Requests that were seen before, and so skipped."""
    waited: int = 0
    """Requests that were pending already, and so left as they are."""
    unseen: int = 0
    """Requests that were never seen, and so cannot be repeated."""
    blocked: int = 0
    """Requests that a rule of ``bloomdupe block`` keeps out."""
    problems: Problems = field(default_factory=Problems)


def add(found: Iterable[Wanted], job: StoppedJob, taken: Taken) -> None:
    """Add requests that were not seen, in a transaction for every few thousand.

    After an interruption, committed requests stay, and count as seen the next time.
    """
    for one in found:
        if job.blocks(one.request, one.slot):
            taken.blocked += 1
        elif job.take_in(one):
            taken.taken_in += 1
        else:
            taken.seen += 1
        if job.frontier.due:
            job.commit()
    job.commit()


def requeue(
    found: Iterable[Wanted],
    job: StoppedJob,
    waiting: Iterable[PendingRequest],
    selection: Selection,
    taken: Taken,
) -> None:
    """Make finished pages pending again, in one transaction.

    Requests that are pending already (``waiting``) are left, and so are requests that
    were never seen. Memory grows with the given requests, about 1 kB each.
    """
    wanted: dict[bytes, Wanted] = {}
    for one in found:
        key, exact = job.project.key_of(one.request)
        if not selection.has(one.slot, one.request.url):
            continue
        if not job.seen.contains(key, exact=exact):
            taken.unseen += 1
        elif job.blocks(one.request, one.slot):
            taken.blocked += 1
        else:
            wanted[key] = one
    for key, _ in find(waiting, [one.request for one in wanted.values()], job.project):
        taken.waited += wanted.pop(key, None) is not None
    for one in wanted.values():
        job.push(one._replace(payload=brought_back(one.payload)))
    taken.taken_in = len(wanted)
    job.commit()
