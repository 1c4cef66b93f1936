"""Changing: makes changes to a job, which no process has, or leaves requests for it."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, TypeVar

from bloomdupe.crawl.added_requests import AddedRequests, message_of
from bloomdupe.crawl.leases.failure import stored_failures
from bloomdupe.crawl.state.rules_file import RulesFile
from bloomdupe.errors import StoreLockedError
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.frontier.pending_requests import count_pending, pending_that, portions
from bloomdupe.jobs.changes import Chosen, Dropped, RequeuedFailures, failed_to_repeat
from bloomdupe.jobs.selection import Search
from bloomdupe.store import files
from bloomdupe.store.format import FAILURES
from bloomdupe.store.inbox import Inbox
from bloomdupe.store.participant import Part
from bloomdupe.store.place import place_of
from bloomdupe.store.progress import told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from scrapy.settings import Settings
    from typing_extensions import Self

    from bloomdupe.crawl.added_requests import Asked
    from bloomdupe.crawl.leases.failure import Failure
    from bloomdupe.jobs.changes import Added, AddingJob
    from bloomdupe.jobs.project import Project
    from bloomdupe.jobs.selection import Selection
    from bloomdupe.store.batch import Change
    from bloomdupe.store.store import Store

    Read = TypeVar("Read")


def opened_to_add(
    path: Path, settings: Settings | None, spider: str | None
) -> AddingJob:
    """Open the job with the store at ``path``, or begin it; close it at the end.

    If a process has the job, requests are left in its inbox. Raises the errors of
    :meth:`bloomdupe.BloomFilter.open` and :meth:`Project.of_job`.
    """
    project = _project_of(path, settings, spider)
    if files.owner_of(path) is None:
        try:
            return HeldJob.open(path, project)
        except StoreLockedError:  # another process was quicker
            pass
    return RunningJob(path, project)


def opened_to_change(path: Path, settings: Settings | None, *, by_url: bool) -> HeldJob:
    """Open the job with the store at ``path``; close it at the end.

    If a process has it, it refuses with :class:`StoreLockedError`. Without ``by_url``,
    the changes name slots and patterns only, and neither the project nor Scrapy is
    needed. Raises the errors of :func:`opened_to_add`, too.
    """
    owner = files.owner_of(path)
    if owner is not None:
        raise StoreLockedError(
            f"{path} is in use by process {owner.process or 'unknown'}, and this"
            " needs a job that does not run: stop the crawl (Ctrl-C, or `bloomdupe"
            " stop --wait`), run this again, and then the crawl: it goes on"
        )
    project = _project_of(path, settings, None) if by_url else None
    return HeldJob.open(path, project)


def _project_of(path: Path, settings: Settings | None, spider: str | None) -> Project:
    from bloomdupe.jobs.project import Project  # which imports Scrapy

    identity = None
    if place_of(path).exists():
        with closing(place_of(path).open(readonly=True)) as store:
            identity = store.header["identity"]
    return Project.of_job(settings, spider, identity, str(path))


class RunningJob:
    """A job that another process has, which takes requests from its inbox."""

    def __init__(self, path: Path, project: Project) -> None:
        self._inbox = Inbox(path)
        self.project = project

    def add(self, requests: list[Asked], added: Added) -> None:
        """See :meth:`ChangingJob.add`."""
        self._inbox.post(message_of(requests))
        added.handed_over += len(requests)

    def close(self) -> None:
        """Nothing is open."""


class HeldJob:
    """A job that no other process has: its filter, frontier and rules.

    Nothing is durable before :meth:`commit`. As long as it is open, no crawl can run.
    """

    def __init__(self, seen: BloomFilter, project: Project | None) -> None:
        self.seen = seen
        self._project = project
        order = {} if project is None else project.order._asdict()
        self._starts_apart = order.pop("starts_apart", True)
        with ExitStack() as undo:
            undo.callback(seen.close)
            self.frontier = Frontier(seen, **order)
            self.rules = RulesFile(self.store.path).read()
            undo.pop_all()

    @classmethod
    def open(cls, path: Path, project: Project | None) -> Self:
        """Open the job, or begin it, and take in what was added while it ran."""
        if project is not None and not place_of(path).exists():
            return cls.begun(path, project)
        job = cls(BloomFilter.open(path), project)
        with ExitStack() as undo:
            undo.callback(job.close)
            AddedRequests(job.store, job._add).take_all(job.commit)
            undo.pop_all()
        return job

    @classmethod
    def begun(cls, path: Path, project: Project) -> Self:
        """Begin a job in an empty place."""
        from bloomdupe.crawl.engines.crawl_job import CrawlJob
        from bloomdupe.settings import JobSettings

        given = project.settings.copy()
        given.set("JOBDIR", str(path.parent), "cmdline")
        job = CrawlJob(JobSettings.read(given), project.spider, project.fingerprinter)
        return cls(job.open_filter(), project)

    @property
    def project(self) -> Project:
        """The project of the job."""
        assert self._project is not None  # noqa: S101 - it is opened by URL
        return self._project

    @property
    def store(self) -> Store:
        """The store of the job."""
        store = self.frontier.store
        assert store is not None  # noqa: S101 - it was opened from there
        return store

    def close(self) -> None:
        """Close the store, without uncommitted changes."""
        self.seen.close()

    def commit(self, *parts: Part) -> None:
        """Make everything durable in one transaction, together with these ``parts``."""
        self.frontier.checkpoint(*parts)

    # Making requests pending

    def push(
        self,
        slot: str,
        priority: int,
        payload: bytes,
        *,
        start: bool = False,
        not_before: float | None = None,
        sequence: int | None = None,
    ) -> None:
        """Make a request pending, whether it was seen or not.

        ``sequence`` is its age, see :meth:`Frontier.push`.
        """
        self.frontier.push(
            slot,
            priority,
            payload,
            start=start and self._starts_apart,
            not_before=not_before,
            sequence=sequence,
        )

    def _push(self, one: Asked) -> None:
        start, due = one.start, one.not_before
        self.push(one.slot, one.priority, one.payload, start=start, not_before=due)

    def _add(self, one: Asked) -> str:
        """Add a request that was not seen; return the name of its count."""
        return one.add(self.rules, self.seen, self._push)

    def add(self, requests: list[Asked], added: Added) -> None:
        """See :meth:`ChangingJob.add`."""
        for one in requests:
            added.count(self._add(one))
        self.commit()

    def requeue(self, requests: list[Asked], added: Added) -> None:
        """See :meth:`ChangingJob.requeue`: in one transaction."""
        wanted: dict[bytes, Asked] = {}
        for one in requests:
            if not self.seen.contains(one.key, exact=one.exact):
                added.unseen += 1
            elif self.rules.keep_out(one.slot, one.url):
                added.blocked += 1
            else:
                wanted[one.key] = one
        if wanted:
            self._leave_out_pending(wanted, added)
        for one in wanted.values():
            self._push(one)
        added.taken_in += len(wanted)
        self.commit()

    def _leave_out_pending(self, wanted: dict[bytes, Asked], added: Added) -> None:
        search = Search({key: one.url for key, one in wanted.items()}, self.project)
        found = pending_that(self.store, search.may_be)
        for _, some in self._told(found, None, lambda read: read[0]):
            for key in (search.key_of(one.payload) for one in some):
                if key is not None and wanted.pop(key, None) is not None:
                    added.waited += 1

    def requeue_failed(
        self, selection: Selection, reasons: tuple[str, ...], added: Added
    ) -> None:
        """See :meth:`ChangingJob.requeue_failed`: in one transaction.

        Each stays among the failed requests until it succeeds.
        """
        puts = {}
        failures = self._failures()
        for digest, one in failed_to_repeat(
            failures, selection, reasons, self.rules, added
        ):
            assert one.payload is not None  # noqa: S101 - it is repeated
            self.push(one.slot, one.priority, one.payload)
            puts[digest] = one._replace(waiting=True)
        added.taken_in += len(puts)
        self.commit(_part(puts))

    def _failures(self) -> Iterator[tuple[bytes, Failure]]:
        with self.store.snapshot() as snapshot:
            yield from stored_failures(snapshot)

    def _told(
        self, found: Iterable[Read], slot: str | None, size: Callable[[Read], int]
    ) -> Iterator[Read]:
        total = count_pending(self.store, slot)
        return told(found, f"Reading {self.store.path}", total, "requests", size)

    # Removing requests

    def drop(self, selection: Selection, pages: dict[bytes, str]) -> Dropped:
        """See :meth:`ChangingJob.drop`: in a transaction for every thousand."""
        dropped = 0
        chosen = Chosen(selection, pages, lambda: self.project)
        requeued = RequeuedFailures(self._failures())
        found = portions(self.store, selection.slot)
        for some in self._told(found, selection.slot, len):
            gone = [one for one in some if chosen.has(one.slot, one.payload)]
            self.frontier.remove(gone)
            repeated = filter(None, (requeued.taken(one.payload) for one in gone))
            failures = {key: one._replace(waiting=False) for key, one in repeated}
            self.commit(_part(failures))
            dropped += len(gone)
        return Dropped(dropped, count_pending(self.store), 0)


def _part(failures: dict[bytes, Failure]) -> Part:
    """Return the part of a commit that writes failed requests."""
    puts: list[Change] = [(digest, one.packed()) for digest, one in failures.items()]
    return Part(changes={FAILURES: puts} if puts else {})
