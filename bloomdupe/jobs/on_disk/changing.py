"""Changing: makes changes to a job, or lets the process make them that has it open."""

from __future__ import annotations

import contextlib
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.changes.taking_up import answer_in
from bloomdupe.crawl.progress.pace import duration
from bloomdupe.errors import StoreError, StoreLockedError, StoreMismatchError
from bloomdupe.jobs.job_contract import Made
from bloomdupe.jobs.on_disk.held_job import HeldJob
from bloomdupe.store import files
from bloomdupe.store.inbox import Inbox
from bloomdupe.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scrapy.settings import Settings

    from bloomdupe.crawl.changes.change import Change
    from bloomdupe.jobs.job_contract import Watched
    from bloomdupe.jobs.project import Project

PAUSE = 0.05
"""Seconds between two looks for an answer."""
QUIET = 3.0
"""Seconds after which the user is told that the owner has not answered."""


class Changing:
    """Makes changes to the job with the store at ``path``, one after another.

    If no process has the job, ``Changing`` opens and keeps it. Otherwise each change
    goes into the inbox of the owner, which answers at its next checkpoint. If the owner
    ends before that, ``Changing`` opens the job and finds the change in the inbox.
    ``say`` is called with news for the user, and ``watched`` shows the progress of a
    change that is made here. Without ``by_url``, the changes name slots
    and patterns only, and the project is not needed.

    Close it at the end. Raises the errors of :meth:`StoppedJob.open`, and
    :class:`StoreMismatchError` if a change is refused.
    """

    def __init__(
        self,
        path: Path,
        settings: Settings | None,
        say: Callable[[str], None],
        watched: Watched,
        spider: str | None,
        *,
        by_url: bool,
    ) -> None:
        self._watched = watched
        self._path = path
        self._settings = settings
        self._say = say
        self._spider = spider
        self._by_url = by_url
        self._job: HeldJob | None = None
        self._open_if_free()

    def close(self) -> None:
        """Close the job, if this process has it."""
        if self._job is not None:
            self._job.close()

    @cached_property
    def project(self) -> Project:
        """The project of the job."""
        from bloomdupe.jobs.on_disk.stopped_job import StoppedJob, project_of_job

        if isinstance(self._job, StoppedJob):
            return self._job.project
        return project_of_job(self._path, self._settings, self._spider)

    def make(self, change: Change) -> Made:
        """Make a change."""
        self._open_if_free()
        if self._job is None:
            return self._ask(change)
        answer = self._job.taking_up.make(change, self._job.commit, self._watched)
        return Made(answer, taken_up=False)

    def wait_for_end(self) -> None:
        """Wait until the process that has the job now has it no more."""
        owner = now = files.owner_of(self._path)
        while owner and now and now.process == owner.process:
            time.sleep(PAUSE)
            now = files.owner_of(self._path)

    def _open_if_free(self) -> None:
        if self._job is None and not files.in_use(self._path):
            with contextlib.suppress(StoreLockedError):  # another process was quicker
                self._open()

    def _open(self) -> None:
        job = self._opened()
        with contextlib.ExitStack() as undo:
            undo.callback(job.close)
            job.taking_up.take_up_all(job.commit)
            undo.pop_all()
        self._job = job

    def _opened(self) -> HeldJob:
        if not (self._by_url or Inbox(self._path).names()):
            return HeldJob.held(self._path)
        # Imported here, because it imports Scrapy.
        from bloomdupe.jobs.on_disk.stopped_job import StoppedJob

        return StoppedJob.open_or_begin(self._path, self._settings, self._spider)

    def _ask(self, change: Change) -> Made:
        """Put a change into the inbox, and wait for the answer."""
        name = Inbox(self._path).post({"version": 1, **change})
        try:
            made = self._answered(name)
        except BaseException:
            self._say(
                f"the change stays in the inbox of {self._path}: the crawl makes it, or"
                " the next command or run"
            )
            raise
        refused = made.answer.get("refused")
        if refused is not None:
            raise StoreMismatchError(refused)
        return made

    def _answered(self, name: str) -> Made:
        begun, told = time.monotonic(), False
        while True:
            answer = self._answer(name)
            if answer is not None:
                return Made(answer, taken_up=True)
            owner = files.owner_of(self._path)
            if owner is None:
                self._open_if_free()
                if self._job is not None:
                    return Made(self._answer_of(self._job, name), taken_up=False)
                continue
            self._check_alive(owner)
            if not told and time.monotonic() - begun > QUIET:
                told = True
                self._say(f"waiting for process {owner.process}, which has the job")
            time.sleep(PAUSE)

    def _answer(self, name: str) -> dict[str, Any] | None:
        with (
            contextlib.closing(Store.open(self._path, readonly=True)) as store,
            store.snapshot() as snapshot,
        ):
            return answer_in(snapshot, name)

    def _answer_of(self, job: HeldJob, name: str) -> dict[str, Any]:
        with job.store.snapshot() as snapshot:
            answer = answer_in(snapshot, name)
        if answer is None:
            raise StoreError(f"{self._path}: the change {name} is not in the inbox")
        return answer

    @staticmethod
    def _check_alive(owner: files.Owner) -> None:
        silence = owner.silence
        if silence is not None:
            raise StoreError(
                f"process {owner.process}, which runs the crawl, has given no sign of"
                f" life for {duration(silence)}"
            )
