"""Imports: makes a job of what a crawl of another program has left.

The job is built beside its place and renamed at the end. So a crash at any instant
leaves either no job or the whole job, and an interrupted import is called again.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from bloomdupe.crawl.added_requests import SEEN, TAKEN_IN
from bloomdupe.crawl.progress.rounds import IMPORTED
from bloomdupe.crawl.retries import is_start
from bloomdupe.errors import StoreError, UnserializableError
from bloomdupe.filter.parameters import is_url
from bloomdupe.frontier.sent_request import SentRequest
from bloomdupe.jobs.held import Counts, HeldJob, Problems
from bloomdupe.jobs.request_line import slot_of
from bloomdupe.moving.scrapy_job import ScrapyJob
from bloomdupe.requests.serializer import Serializer
from bloomdupe.store import files

if TYPE_CHECKING:
    from bloomdupe.jobs.project import Project
    from bloomdupe.moving.scrapy_redis_job import RedisJob

UNTRUSTED = (
    "holds pickled requests, and loading a pickle can run any code: if you trust all"
    " who could write there, --trust-pickles imports them; --fingerprints-only imports"
    " the seen URLs, and leaves the pending requests out"
)


def source_of(named: str, project: Project) -> ScrapyJob | RedisJob:
    """Return the crawl of another program that a user names."""
    if is_url(named):
        from bloomdupe.moving.scrapy_redis_job import RedisJob

        return RedisJob(named, project)
    return ScrapyJob(Path(named))


def import_into(
    path: Path,
    project: Project,
    source: ScrapyJob | RedisJob,
    *,
    trusted: bool,
    only_seen: bool,
    problems: Problems,
) -> tuple[Counts, list[str]]:
    """Make the job with the store at ``path``, which must not exist.

    Returns counts of the requests that are pending now, and of the fingerprints that
    are marked as seen; and remarks on data that are not imported. What cannot be read
    is a problem.

    The ``source`` is a crawl of another program, which has stopped. It is not changed.
    Pending requests are loaded only from a source that is ``trusted``; ``only_seen``
    leaves them out. Raises :class:`StoreError` before anything is made if the source
    has some and neither is set.
    """
    building = path.with_name(path.name + ".importing")
    if building.is_dir() and files.owner_of(building / path.name):
        raise StoreError(f"{building}: another import is making this job")
    files.delete_unfinished(building)
    if path.exists():
        raise StoreError(f"{path} is there already: import into a JOBDIR without a job")
    has_pending = not only_seen and source.has_pending()
    if has_pending and not trusted:
        raise StoreError(f"{source.shown} {UNTRUSTED}")
    counts = Counts()
    try:
        files.make_directory(building, 0o700)
        with closing(HeldJob.begun(building / path.name, project)) as job:
            seen = job.frontier.seen
            if has_pending:
                counts[TAKEN_IN] = _take_requests(job, project, source, problems)
            if not only_seen:
                seen.notes["run"] = IMPORTED
            for fingerprint in source.fingerprints(problems):
                seen.add(fingerprint, exact=bool(project.exact))
                counts[SEEN] += 1
                if job.frontier.due:
                    job.commit()
            remarks = source.end(path.parent, trusted=trusted)
            job.commit()
        (building / path.name).rename(path)
        files.sync_directory(path.parent)
    finally:
        files.delete_unfinished(building)
    return counts, remarks


def _take_requests(
    job: HeldJob, project: Project, source: ScrapyJob | RedisJob, problems: Problems
) -> int:
    """Add the pending requests, and count them.

    Their ages keep the order in which they were taken.
    """
    order, serializer = project.order, Serializer(project.crawler.spider)
    folder = job.stores[0].path.parent
    total, requests = source.pending(project.crawler, folder, problems)
    for place, request in enumerate(requests):
        try:
            payload = serializer.dump(request)
        except UnserializableError as error:
            problems.add(request.url, str(error))
            continue
        start = is_start(request)
        fifo = order.start_fifo if start else order.fifo
        job.push(
            SentRequest(slot_of(request), request.priority, payload, start=start),
            sequence=place if fifo else total - place,
        )
        if start or not request.dont_filter:  # as a crawl marks them
            key, exact = project.key_of(request)
            job.frontier.seen.add(key, exact=exact)
        if job.frontier.due:
            job.commit()
    return job.pending
