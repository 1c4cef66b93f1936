"""Failed requests of another job, imported into this job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import Request

from bloomdupe.errors import UnserializableError
from bloomdupe.jobs.failed import failures_part
from bloomdupe.store.format import FAILURES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bloomdupe.crawl.leases.failure import Failure
    from bloomdupe.jobs.on_disk import StoppedJob

__all__ = ["take_in_failures"]


def take_in_failures(job: StoppedJob, found: Iterable[tuple[bytes, Failure]]) -> int:
    """Import failed requests, in one transaction; return how many.

    A page that this job has seen is left as it is.
    """
    puts = {}
    with job.store.snapshot() as snapshot:
        for digest, one in found:
            if snapshot.failure(digest) is not None or _is_seen(one, job):
                continue
            puts[digest] = one.packed()
    if puts:
        job.store.make_room_for(FAILURES)
        job.commit(failures_part(puts))
    return len(puts)


def _is_seen(one: Failure, job: StoppedJob) -> bool:
    try:
        request = Request(one.url)
        if one.payload is not None:
            request = job.project.request_of(one.payload)
    except (ValueError, UnserializableError):
        return False  # it cannot be fetched
    key, exact = job.project.key_of(request)
    return job.seen.contains(key, exact=exact)
