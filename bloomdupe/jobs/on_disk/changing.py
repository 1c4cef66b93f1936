"""Changing: makes changes to a job that no process has."""

from __future__ import annotations

import contextlib
from functools import cached_property
from typing import TYPE_CHECKING

from bloomdupe.crawl.added_requests import message_of
from bloomdupe.crawl.leases.failure import stored_failures
from bloomdupe.errors import StoreLockedError
from bloomdupe.frontier.pending_requests import count_pending, pending_that, portions
from bloomdupe.jobs.changes import Chosen, Dropped, RequeuedFailures, failed_to_repeat
from bloomdupe.jobs.on_disk.held_job import HeldJob
from bloomdupe.jobs.selection import Search
from bloomdupe.store import files
from bloomdupe.store.format import FAILURES
from bloomdupe.store.inbox import Inbox
from bloomdupe.store.participant import Part

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrapy.settings import Settings

    from bloomdupe.crawl.added_requests import Asked
    from bloomdupe.crawl.leases.failure import Failure
    from bloomdupe.jobs.added import Added
    from bloomdupe.jobs.job_contract import Watched
    from bloomdupe.jobs.project import Project
    from bloomdupe.jobs.selection import Selection
    from bloomdupe.store.batch import Change


class Changing:
    """Changes the job with the store at ``path``; close it at the end.

    If a process has the job, it refuses with :class:`StoreLockedError`; but when
    ``adding`` requests, it leaves them in the inbox of that process. ``watched`` shows
    the progress of a change. Without ``by_url``, the changes name slots and patterns
    only, and the project is not needed. Raises the errors of :meth:`StoppedJob.open`.
    """

    def __init__(
        self,
        path: Path,
        settings: Settings | None,
        watched: Watched,
        spider: str | None,
        *,
        by_url: bool,
        adding: bool,
    ) -> None:
        self._watched = watched
        self._path = path
        self._settings = settings
        self._spider = spider
        self._adding = adding
        owner = files.owner_of(path)
        if owner is not None and not adding:
            raise StoreLockedError(
                f"{path} is in use by process {owner.process or 'unknown'}, and this"
                " needs a job that does not run: stop the crawl (Ctrl-C, or `bloomdupe"
                " stop --wait`), run this again, and then the crawl: it goes on"
            )
        self._job = None if owner else self._open(by_url=by_url)

    def _open(self, *, by_url: bool) -> HeldJob | None:
        """Open the job; return None if another process was quicker, and may be."""
        job: HeldJob
        try:
            if by_url:
                # Imported here, because it imports Scrapy.
                from bloomdupe.jobs.on_disk.stopped_job import StoppedJob

                job = StoppedJob.open_or_begin(self._path, self._settings, self._spider)
            else:
                job = HeldJob.held(self._path)
        except StoreLockedError:
            if not self._adding:
                raise
            return None
        with contextlib.ExitStack() as undo:
            undo.callback(job.close)
            job.take_inbox()
            undo.pop_all()
        return job

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

    @property
    def _held(self) -> HeldJob:
        assert self._job is not None  # noqa: S101 - it was refused otherwise
        return self._job

    # Making requests pending

    def add(self, requests: list[Asked], added: Added) -> None:
        """See :meth:`ChangingJob.add`."""
        if self._job is None:
            Inbox(self._path).post(message_of(requests))
            added.handed_over += len(requests)
            return
        for one in requests:
            added.count(self._job.add(one))
        self._job.commit()

    def requeue(self, requests: list[Asked], added: Added) -> None:
        """See :meth:`ChangingJob.requeue`: in one transaction."""
        job = self._held
        wanted: dict[bytes, Asked] = {}
        for one in requests:
            if not job.seen.contains(one.key, exact=one.exact):
                added.unseen += 1
            elif job.rules.keep_out(one.slot, one.url):
                added.blocked += 1
            else:
                wanted[one.key] = one
        if wanted:
            self._leave_out_pending(wanted, added)
        for one in wanted.values():
            job.push_asked(one)
        added.taken_in += len(wanted)
        job.commit()

    def _leave_out_pending(self, wanted: dict[bytes, Asked], added: Added) -> None:
        store = self._held.store
        urls = {key: one.url for key, one in wanted.items()}
        search = Search(urls, self.project)
        found = pending_that(store, search.may_be)
        total = count_pending(store)
        for _, some in self._watched(found, total, "requests", lambda read: read[0]):
            for key in (search.key_of(one.payload) for one in some):
                if key is not None and wanted.pop(key, None) is not None:
                    added.waited += 1

    def requeue_failed(
        self, selection: Selection, reasons: tuple[str, ...], added: Added
    ) -> None:
        """See :meth:`ChangingJob.requeue_failed`: in one transaction.

        Each stays among the failed requests until it succeeds.
        """
        job, puts = self._held, {}
        found = failed_to_repeat(self._failures(), selection, reasons, job.rules, added)
        for digest, one in found:
            assert one.payload is not None  # noqa: S101 - it is repeated
            job.push(one.slot, one.priority, one.payload)
            puts[digest] = one._replace(waiting=True)
        added.taken_in += len(puts)
        job.commit(self._part(puts))

    def _failures(self) -> Iterator[tuple[bytes, Failure]]:
        with self._held.store.snapshot() as snapshot:
            yield from stored_failures(snapshot)

    def _part(self, failures: dict[bytes, Failure]) -> Part:
        """Return the part of a commit that writes failed requests."""
        puts: list[Change] = [
            (digest, one.packed()) for digest, one in failures.items()
        ]
        return Part(changes={FAILURES: puts} if puts else {})

    # Removing requests

    def drop(self, selection: Selection, pages: dict[bytes, str]) -> Dropped:
        """See :meth:`ChangingJob.drop`: in a transaction for every thousand."""
        job, dropped = self._held, 0
        chosen = Chosen(selection, pages, lambda: self.project)
        requeued = RequeuedFailures(self._failures())
        total = count_pending(job.store, selection.slot)
        found = portions(job.store, selection.slot)
        for some in self._watched(found, total, "requests", len):
            gone = [one for one in some if chosen.has(one.slot, one.payload)]
            job.frontier.remove(gone)
            repeated = filter(None, (requeued.taken(one.payload) for one in gone))
            failures = {key: one._replace(waiting=False) for key, one in repeated}
            job.commit(self._part(failures))
            dropped += len(gone)
        return Dropped(dropped, count_pending(job.store), 0)
