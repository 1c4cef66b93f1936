"""StoppedJob: a job that no process runs, opened to be changed."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from bloomdupe.crawl.engines.crawl_job import CrawlJob
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.jobs.on_disk.held_job import HeldJob
from bloomdupe.jobs.project import Project
from bloomdupe.settings import JobSettings
from bloomdupe.store.place import place_of

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy.settings import Settings
    from typing_extensions import Self


class StoppedJob(HeldJob):
    """A job's filter and frontier, and its project."""

    def __init__(self, project: Project, seen: BloomFilter) -> None:
        self.project = project
        super().__init__(seen, **project.order._asdict())

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
        if not place_of(path).exists():
            return cls.begun(path, project_of_job(path, settings, spider))
        return cls.open(path, settings, spider)

    @classmethod
    def begun(cls, path: Path, project: Project) -> Self:
        """Begin a job in an empty place."""
        given = project.settings.copy()
        given.set("JOBDIR", str(path.parent), "cmdline")
        job = CrawlJob(JobSettings.read(given), project.spider, project.fingerprinter)
        return cls(project, job.open_filter())

    def mark(self, fingerprint: bytes) -> None:
        """Mark a fingerprint as seen; exactly, if some URLs are kept exactly."""
        self.seen.add(fingerprint, exact=bool(self.project.exact))


def project_of_job(
    path: Path, settings: Settings | None, spider: str | None
) -> Project:
    """Return the project of a job; see :meth:`Project.of_job`."""
    identity = None
    if place_of(path).exists():
        with closing(place_of(path).open(readonly=True)) as store:
            identity = store.header["identity"]
    return Project.of_job(settings, spider, identity, str(path))
