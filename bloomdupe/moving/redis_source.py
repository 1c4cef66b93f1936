"""RedisSource: imports a crawl of scrapy-redis into a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.moving.imports import begun_elsewhere

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bloomdupe.crawl.leases.failure import Failure
    from bloomdupe.jobs.lines import Problems
    from bloomdupe.jobs.receiver import Imported, Receiver
    from bloomdupe.jobs.request_line import Wanted
    from bloomdupe.moving.scrapy_redis_job import RedisJob

__all__ = ["RedisSource"]


class RedisSource:
    """A crawl with stopped workers.

    ``watched`` shows the progress by kind and total.
    """

    header = None
    is_job = True

    def __init__(
        self,
        crawl: RedisJob,
        watched: Callable[[Iterator[Any], int | None, str], Iterator[Any]],
    ) -> None:
        self._crawl = crawl
        self._watched = watched
        self.identity = crawl.identity

    def failures(self, problems: Problems) -> Iterator[tuple[bytes, Failure]]:  # noqa: ARG002
        """Return no failed requests: scrapy-redis keeps none."""
        return iter(())

    def requests(self, job: Receiver, problems: Problems) -> Iterator[Wanted]:  # noqa: ARG002
        """Yield the pending requests, and then the start URLs."""
        found: Iterator[Wanted] = self._watched(
            self._crawl.requests(problems), self._crawl.total, "requests"
        )
        return found

    def take_marks(self, job: Receiver, imported: Imported) -> None:
        """Mark the requests that were seen."""
        if self._crawl.marks:
            found = self._crawl.fingerprints(imported.problems)
            size = self._crawl.seen.size
            for fingerprint in self._watched(found, size, "fingerprints"):
                job.mark(fingerprint)
                imported.marks += 1
                if job.due:
                    job.commit()
            begun_elsewhere(job, {})
        self._crawl.check_unchanged()
        imported.remarks += self._remarks(job)

    def _remarks(self, job: Receiver) -> Iterator[str]:
        crawl = self._crawl
        if crawl.queue.is_there or crawl.seen.is_there:
            yield (
                "Requests that workers of scrapy-redis had in progress when they"
                " stopped are in no key. After a stop in good order (Ctrl-C once) there"
                " are none; the requests of a killed worker are lost"
            )
        if crawl.strange:
            yield (
                f"{crawl.strange:,} of the first pending requests are not in"
                f" {crawl.seen.name!r}, as all should be. Perhaps part of it was"
                " deleted, or its fingerprints are not always those of"
                f" {job.project.fingerprinter}; pages that are done may be fetched"
                " again"
            )
        imported_starts = crawl.start.size and crawl.knows_start_requests
        if imported_starts and job.project.spiders_own("setup_redis"):
            yield (
                f"Spider {job.project.spider!r} reads {crawl.start.name!r} by itself,"
                " too: derive it from another class, or delete that key, or it fetches"
                " these start pages twice"
            )
