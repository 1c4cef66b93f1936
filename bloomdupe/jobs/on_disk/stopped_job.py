"""StoppedJob: a job that no process runs, opened to be changed."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.engines.crawl_job import CrawlJob
from bloomdupe.crawl.progress.rounds import IMPORT
from bloomdupe.errors import IncompatibleFilterError
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.filter.parameters import Parameters, check_same
from bloomdupe.jobs.on_disk.held_job import HeldJob
from bloomdupe.jobs.project import Project
from bloomdupe.settings import JobSettings
from bloomdupe.store.format import FAILURES
from bloomdupe.store.participant import Part
from bloomdupe.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from scrapy.settings import Settings
    from typing_extensions import Self

    from bloomdupe.crawl.leases.failure import Failure
    from bloomdupe.jobs.receiver import Imported
    from bloomdupe.jobs.request_line import Wanted
    from bloomdupe.store.batch import Change


class StoppedJob(HeldJob):
    """A job's filter and frontier, and its project."""

    def __init__(self, project: Project, seen: BloomFilter) -> None:
        self.project = project
        super().__init__(seen, project, **project.order._asdict())

    @classmethod
    def open(
        cls, path: Path, settings: Settings | None, spider: str | None = None
    ) -> Self:
        """Open the job with the store at ``path``.

        Raises the errors of :meth:`bloomdupe.BloomFilter.open`,
        :class:`StoreMismatchError` if this project would make different fingerprints,
        and :class:`SettingError` if the job is not that of ``spider``.
        """
        project = project_of_job(path, settings, spider)
        return cls(project, BloomFilter.open(path))

    @classmethod
    def open_or_begin(
        cls, path: Path, settings: Settings | None, spider: str | None
    ) -> Self:
        """Open the job, or begin a job of ``spider`` in an empty place.

        Raises :class:`SettingError` if it is another spider's, or no spider is given.
        """
        if not Store.exists(path):
            return cls._begin(path, settings, spider)
        return cls.open(path, settings, spider)

    @classmethod
    def open_or_copy(
        cls,
        path: Path,
        settings: Settings | None,
        header: dict[str, Any],
        *,
        marks: bool,
    ) -> Self:
        """Open a job, or begin a job like the job with this ``header``.

        Raises :class:`StoreMismatchError` if it is another spider's, has another
        fingerprinter, or cannot receive the ``marks`` of that store.
        """
        identity = header["identity"]
        if not Store.exists(path):
            Project.of_store(settings, identity)
            parameters = Parameters.from_header(header, path)
            BloomFilter.open(path, **vars(parameters), identity=identity).close()
        job = cls.open(path, settings)
        with ExitStack() as undo:
            undo.callback(job.close)
            check_same(path, job.store.header["identity"], identity)
            if marks:
                job._check_marks(header)
            undo.pop_all()
        return job

    @classmethod
    def _begin(cls, path: Path, settings: Settings | None, spider: str | None) -> Self:
        project = project_of_job(path, settings, spider)
        given = project.settings.copy()
        given.set("JOBDIR", str(path.parent), "cmdline")
        job = CrawlJob(JobSettings.read(given), project.spider, project.fingerprinter)
        return cls(project, job.open_filter())

    # Methods for an import (see bloomdupe.jobs.receiver.Receiver)

    @property
    def sequence(self) -> int:
        """Number of requests ever added."""
        return self.frontier.sequence

    @property
    def due(self) -> bool:
        """Whether it is time to commit."""
        return self.frontier.due

    def keeps_out(self, one: Wanted) -> bool:
        """Whether a rule of ``bloomdupe block`` keeps a request out."""
        return self.blocked.drops(one.request, one.slot)

    def take_over(self, one: Wanted, place: int, *, in_any_case: bool) -> bool:  # noqa: ARG002 - the filter needs no place
        """Add a request of a source and mark it; False if it was seen before.

        A request with ``dont_filter`` is added in any case.
        """
        key, exact = self.project.key_of(one.request)
        past = in_any_case or one.request.dont_filter
        if not past and self.seen.contains(key, exact=exact):
            return False
        self.push(
            one.slot,
            one.request.priority,
            one.payload,
            start=one.start,
            not_before=one.not_before,
            sequence=None if one.age is None else self.notes[IMPORT]["base"] + one.age,
        )
        self.seen.add(key, exact=exact)
        return True

    def take_in_failures(self, found: Iterable[tuple[bytes, Failure]]) -> int:
        """Import failed requests, in one transaction; return how many.

        A page that this job has seen is left as it is.
        """
        puts: list[Change] = []
        with self.store.snapshot() as snapshot:
            for digest, one in found:
                if not snapshot.has(FAILURES, digest) and not self._has_seen(one):
                    puts.append((digest, one.packed()))
        if puts:
            self.commit(Part(changes={FAILURES: puts}))
        return len(puts)

    def _has_seen(self, one: Failure) -> bool:
        key = self.project.key_of_failure(one)
        return key is not None and self.seen.contains(key[0], exact=key[1])

    def _check_marks(self, header: dict[str, Any]) -> None:
        """Refuse marks of a filter with other parameters, or another key."""
        path = self.store.path
        if self.seen.parameters != Parameters.from_header(header, path):
            raise IncompatibleFilterError(
                f"the seen URLs of {path} cannot be joined with those of the source:"
                " the filters have other parameters, or another secret key, as every"
                " new filter has. Import into a JOBDIR without a job; or"
                " --without-marks imports only the pending requests, and then pages"
                " that are done there may be fetched again"
            )

    def mark(self, fingerprint: bytes) -> None:
        """Mark a fingerprint as seen; exactly, if some URLs are kept exactly."""
        self.seen.add(fingerprint, exact=bool(self.project.exact))

    def merge(self, seen: BloomFilter) -> int:
        """Add all keys of another filter; return how many URLs that is.

        Memory: the pages of both.
        """
        self.seen |= seen
        return len(seen)

    def complete(self, imported: Imported) -> None:
        """Leave the counts as they are: each was right at once."""

    @property
    def notes(self) -> dict[str, Any]:
        """How the last run ended; see :class:`bloomdupe.crawl.progress.rounds.Run`."""
        return self.seen.notes


def project_of_job(
    path: Path, settings: Settings | None, spider: str | None
) -> Project:
    """Return the project of a job; see :meth:`Project.of_job`."""
    identity = None
    if Store.exists(path):
        with closing(Store.open(path, readonly=True)) as store:
            identity = store.header["identity"]
    return Project.of_job(settings, spider, identity, str(path))
