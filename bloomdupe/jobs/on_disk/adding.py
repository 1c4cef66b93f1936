"""Adding: makes requests pending by hand, through the filter of a job or past it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bloomdupe.crawl.leases.failure import Failure
from bloomdupe.errors import UnserializableError
from bloomdupe.jobs.lines import Problems
from bloomdupe.jobs.on_disk.failed_requests import failures_part
from bloomdupe.jobs.request_line import brought_back
from bloomdupe.jobs.selection import find

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bloomdupe.frontier.pending_requests import PendingRequest
    from bloomdupe.jobs.on_disk.stopped_job import StoppedJob
    from bloomdupe.jobs.request_line import Wanted
    from bloomdupe.jobs.selection import Selection

__all__ = ["Added", "add", "requeue", "requeue_failed"]


@dataclass
class Added:
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


def add(found: Iterable[Wanted], job: StoppedJob, added: Added) -> None:
    """Add requests that were not seen, in a transaction for every few thousand.

    After an interruption, committed requests stay, and count as seen the next time.
    """
    for one in found:
        if job.blocks(one.request, one.slot):
            added.blocked += 1
        elif job.take_in(one):
            added.taken_in += 1
        else:
            added.seen += 1
        if job.frontier.due:
            job.commit()
    job.commit()


def requeue(
    found: Iterable[Wanted],
    job: StoppedJob,
    pending: Iterable[PendingRequest],
    selection: Selection,
    added: Added,
) -> None:
    """Make finished pages pending again, in one transaction.

    Requests that are pending already (``pending``) are left, and so are requests that
    were never seen. Memory grows with the given requests, about 1 kB each.
    """
    wanted: dict[bytes, Wanted] = {}
    for one in found:
        key, exact = job.project.key_of(one.request)
        if not selection.has(one.slot, one.request.url):
            continue
        if not job.seen.contains(key, exact=exact):
            added.unseen += 1
        elif job.blocks(one.request, one.slot):
            added.blocked += 1
        else:
            wanted[key] = one
    for key, _ in find(pending, [one.request for one in wanted.values()], job.project):
        added.waited += wanted.pop(key, None) is not None
    for one in wanted.values():
        job.push(one._replace(payload=brought_back(one.payload)))
    added.taken_in = len(wanted)
    job.commit()


def requeue_failed(
    job: StoppedJob, selection: Selection, reasons: tuple[str, ...], added: Added
) -> None:
    """Make failed requests pending again, in one transaction.

    Each stays among the failed requests until it succeeds. A request that could not be
    stored becomes a problem of ``added``.
    """
    puts: dict[bytes, bytes] = {}
    with job.store.snapshot() as snapshot:
        for digest, data in snapshot.failures():
            one = Failure.unpacked(data)
            if not (one.is_to_retry(reasons) and selection.has(one.slot, one.url)):
                continue
            if one.waiting:
                added.waited += 1
            elif one.payload is not None and _is_blocked(one, one.payload, job):
                added.blocked += 1
            elif one.payload is None:
                source = one.parent or "the page that has led to it"
                added.problems.add(
                    one.url,
                    "it could not be stored, or its page comes again by itself;"
                    f" {source} yields it again",
                )
            else:
                job.frontier.push(one.slot, one.priority, one.payload)
                puts[digest] = one._replace(waiting=True).packed()
    added.taken_in = len(puts)
    if puts:
        job.commit(failures_part(puts))


def _is_blocked(one: Failure, payload: bytes, job: StoppedJob) -> bool:
    try:
        return job.blocks(job.project.request_of(payload), one.slot)
    except UnserializableError:
        return False  # the crawl says so
