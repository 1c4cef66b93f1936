"""Job: a job that the user names, and what verbs do with it, on whichever store it is.

A job is a list of stores: a directory is one, a crawl on Redis has one for each
partition. Requests stand in the store of their slot, and what belongs to the whole job
in the first one. A verb needs no case for each kind of job.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from bloomdupe.crawl.progress.pace import duration, plural
from bloomdupe.errors import BloomDupeError, StoreLockedError, StoreMismatchError
from bloomdupe.jobs.job_place import JobPlace
from bloomdupe.jobs.reader import JobReader
from bloomdupe.jobs.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from scrapy.settings import Settings

    from bloomdupe.crawl.state.rules import Rules
    from bloomdupe.jobs.held import HeldJob, RunningJob
    from bloomdupe.jobs.project import Project

PAUSE = 0.05
"""Seconds between two looks for a crawl that ends."""


class Removal(NamedTuple):
    """A job that is about to be removed."""

    places: Sequence[str]
    """The directories or the URL to remove, without passwords."""
    contents: str
    """The contents, for the question to the user."""
    remove: Callable[[], object]
    """Removes the job; raises :class:`~bloomdupe.errors.StoreError`."""
    stays: Sequence[str] = ()
    """Output files, which stay."""


class Job(JobPlace):
    """A job that the user names. Nothing is opened before it is needed.

    All operations raise :class:`~bloomdupe.errors.BloomDupeError`.
    """

    engine: ClassVar[str]
    """Its name in the table of verbs."""
    kind: ClassVar[str]
    """The kind of job, as the subject of a sentence."""

    @property
    def jobs_within(self) -> list[Path]:
        """JOBDIRs in the named directory, if it is no job; by name."""
        return []

    @abstractmethod
    def removal(self) -> AbstractContextManager[Removal]:
        """Prepare to remove the job, which stays locked within the context."""

    # Reading

    def reader(self) -> JobReader:
        """Return what reads the job, also while it runs."""
        return JobReader(self)

    def has_slot(self, slot: str) -> bool:
        """Whether a request of a slot is pending or has failed."""
        selection = Selection(slot)
        reader = self.reader()
        pending = next(reader.requests(selection), None)
        return pending is not None or bool(
            reader.failed_requests().selected(selection, ())
        )

    # Changing

    def adding(
        self, settings: Settings | None, spider: str | None
    ) -> HeldJob | RunningJob:
        """Open the job to add requests, with the project of the settings.

        It may run. A missing job of the ``spider`` begins.
        """
        from bloomdupe.jobs.held import RunningJob

        project = self._project(settings, spider)
        if self.life().owner is None:
            try:
                return self.hold(project, begin=True)
            except StoreLockedError:  # another process was quicker
                pass
        return RunningJob(self.hand_over, project)

    def changing(self, settings: Settings | None, *, by_url: bool) -> HeldJob:
        """Open the job for changes, with the project of the settings.

        If a crawl has it, it refuses with :class:`StoreLockedError`. Without
        ``by_url``, only slots and patterns will be named, and neither the project nor
        Scrapy is needed.
        """
        with self.stores():  # or there is none
            life = self.life()
        if life.owner is not None and not (life.workers and life.silence):
            raise StoreLockedError(
                f"{self.shown} is in use by {life.owner}, and this needs a job that"
                " does not run: stop the crawl (Ctrl-C, or `bloomdupe stop --wait`),"
                " run this again, and then the crawl: it goes on"
            )
        project = self._project(settings, None) if by_url else None
        return self.hold(project, begin=False)

    def _project(self, settings: Settings | None, spider: str | None) -> Project:
        from bloomdupe.jobs.project import Project  # which imports Scrapy

        return Project.of_job(settings, spider, self.identity, self.shown)

    def change_rules(self, change: Callable[[Rules], Rules]) -> tuple[Rules, str]:
        """Change the rules of the job, which a run reads at its checkpoints.

        Returns them, and who obeys them when, as a sentence.
        """
        rules, life = self.replace_rules(change), self.life()
        if life.beat is None:
            return rules, "The next run obeys."
        crawl = f"The running crawl ({life.owner})"
        if life.silence is not None:
            crawl += f" has given no sign of life for {duration(life.silence)}; it"
        return rules, f"{crawl} obeys at its next checkpoint."

    def stop(self, *, wait: bool) -> int:
        """Ask the crawl to stop, and ``wait`` for its end; return its processes.

        It is a rule that the next run ignores: a run reads the rules before its first
        sign of life, and stops if a later stop is another one.
        """
        before = now = self.life()
        if before.beat is None:
            raise StoreMismatchError("no crawl runs, so there is nothing to stop")
        self.replace_rules(lambda rules: rules.stopping(time.time_ns()))
        while wait and now.names & before.names and not (now.workers and now.silence):
            time.sleep(PAUSE)
            now = self.life()
        return len(before.names)

    def contents(self) -> tuple[str, list[str]]:
        """Describe the contents, even if they are damaged; and the output files."""
        try:
            found = self.reader().describe()
        except BloomDupeError as error:
            return f"it cannot be read ({error})", []
        seen = f"{plural(found.filter.keys, 'URL')} seen"
        if found.view is None:
            return seen, []
        job = found.view.job
        held = f"{seen}, {plural(job.pending, 'request')} pending"
        stays = [output.uri for output in job.outputs]
        return f"{held}, {plural(job.pages, 'page')}", stays
