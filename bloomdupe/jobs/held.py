"""HeldJob: a job that this process has, to change its requests."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from bloomdupe.crawl.leases.failure import stored_failures
from bloomdupe.crawl.state.rules_file import RulesFile
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.frontier.pending_requests import count_pending, pending_that, portions
from bloomdupe.frontier.sent_request import partition_of
from bloomdupe.jobs.changes import Chosen, Dropped, RequeuedFailures, failed_to_repeat
from bloomdupe.jobs.selection import Search
from bloomdupe.store.format import FAILURES
from bloomdupe.store.participant import Part
from bloomdupe.store.progress import told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from typing_extensions import Self

    from bloomdupe.crawl.added_requests import Asked
    from bloomdupe.crawl.leases.failure import Failure
    from bloomdupe.crawl.state.rules import Rules
    from bloomdupe.jobs.changes import Added
    from bloomdupe.jobs.project import Project
    from bloomdupe.jobs.selection import Selection
    from bloomdupe.store.batch import Change
    from bloomdupe.store.store import Store

    Read = TypeVar("Read")


class HeldJob:
    """A job that no other process has: its filters, frontiers and rules.

    There is one of each for each store. Nothing is durable before :meth:`commit`. As
    long as it is open, no crawl can run.
    """

    def __init__(
        self, filters: list[BloomFilter], project: Project | None, rules: Rules
    ) -> None:
        self._filters = filters
        self._project = project
        self.rules = rules
        order = {} if project is None else project.order._asdict()
        self._starts_apart = order.pop("starts_apart", True)
        self.frontiers = [Frontier(seen, **order) for seen in filters]

    @classmethod
    def open(cls, path: Path, project: Project | None) -> Self:
        """Open the job in a directory."""
        return cls._with(BloomFilter.open(path), project)

    @classmethod
    def begun(cls, path: Path, project: Project) -> Self:
        """Begin a job in an empty directory."""
        from bloomdupe.crawl.engines.crawl_job import CrawlJob
        from bloomdupe.settings import JobSettings

        given = project.settings.copy()
        given.set("JOBDIR", str(path.parent), "cmdline")
        job = CrawlJob(JobSettings.read(given), project.spider, project.fingerprinter)
        return cls._with(job.open_filter(), project)

    @classmethod
    def _with(cls, seen: BloomFilter, project: Project | None) -> Self:
        with ExitStack() as undo:
            undo.callback(seen.close)
            store = seen.share_store()
            assert store is not None  # noqa: S101 - it was opened from there
            job = cls([seen], project, RulesFile(store.path).read())
            undo.pop_all()
        return job

    @property
    def project(self) -> Project:
        """The project of the job."""
        assert self._project is not None  # noqa: S101 - it is opened by URL
        return self._project

    @property
    def seen(self) -> BloomFilter:
        """The filter of a job with a single store."""
        return self._filters[0]

    @property
    def frontier(self) -> Frontier:
        """The frontier of a job with a single store."""
        return self.frontiers[0]

    @property
    def store(self) -> Store:
        """The store of a job with a single one."""
        return self.stores[0]

    @property
    def stores(self) -> list[Store]:
        """The stores of the job."""
        found = [frontier.store for frontier in self.frontiers]
        return [store for store in found if store is not None]

    def close(self) -> None:
        """Close the stores, without uncommitted changes."""
        for seen in self._filters:
            seen.close()

    def commit(self, parts: Mapping[int, Part] | None = None) -> None:
        """Make everything durable in one transaction, with more ``parts`` by store."""
        self.frontier.checkpoint(*(parts or {}).values())

    def _number_of(self, slot: str) -> int:
        """Return the number of the store with the requests of a slot."""
        return partition_of(slot, len(self.frontiers))

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
        self.frontiers[self._number_of(slot)].push(
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

    def add_one(self, one: Asked) -> str:
        """Add a request that was not seen; return the name of its count."""
        return one.add(self.rules, self._filters[self._number_of(one.slot)], self._push)

    def add(self, requests: list[Asked], added: Added) -> None:
        """See :meth:`ChangingJob.add`."""
        for one in requests:
            added.count(self.add_one(one))
        self.commit()

    def requeue(self, requests: list[Asked], added: Added) -> None:
        """See :meth:`ChangingJob.requeue`: in one transaction."""
        wanted: dict[bytes, Asked] = {}
        for one in requests:
            seen = self._filters[self._number_of(one.slot)]
            if not seen.contains(one.key, exact=one.exact):
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
        for store in self.stores:
            found = pending_that(store, search.may_be)
            for _, some in _told(store, found, None, lambda read: read[0]):
                for key in (search.key_of(one.payload) for one in some):
                    if key is not None and wanted.pop(key, None) is not None:
                        added.waited += 1

    def requeue_failed(
        self, selection: Selection, reasons: tuple[str, ...], added: Added
    ) -> None:
        """See :meth:`ChangingJob.requeue_failed`: in one transaction.

        Each stays among the failed requests until it succeeds.
        """
        parts = {}
        for number, store in enumerate(self.stores):
            puts = {}
            for digest, one in failed_to_repeat(
                _failures(store), selection, reasons, self.rules, added
            ):
                assert one.payload is not None  # noqa: S101 - it is repeated
                self.push(one.slot, one.priority, one.payload)
                puts[digest] = one._replace(waiting=True)
            added.taken_in += len(puts)
            parts[number] = _part(puts)
        self.commit(parts)

    # Removing requests

    def drop(self, selection: Selection, pages: dict[bytes, str]) -> Dropped:
        """See :meth:`ChangingJob.drop`: in a transaction for every thousand."""
        dropped = 0
        chosen = Chosen(selection, pages, lambda: self.project)
        for number, store in enumerate(self.stores):
            requeued = RequeuedFailures(_failures(store))
            found = portions(store, selection.slot)
            for some in _told(store, found, selection.slot, len):
                gone = [one for one in some if chosen.has(one.slot, one.payload)]
                self.frontiers[number].remove(gone)
                repeated = filter(None, (requeued.taken(one.payload) for one in gone))
                failures = {key: one._replace(waiting=False) for key, one in repeated}
                self.commit({number: _part(failures)})
                dropped += len(gone)
        return Dropped(dropped, sum(map(count_pending, self.stores)), 0)


def _failures(store: Store) -> Iterator[tuple[bytes, Failure]]:
    with store.snapshot() as snapshot:
        yield from stored_failures(snapshot)


def _told(
    store: Store, found: Iterable[Read], slot: str | None, size: Callable[[Read], int]
) -> Iterator[Read]:
    task, total = f"Reading {store.shown}", count_pending(store, slot)
    return told(found, task, total, "requests", size)


def _part(failures: dict[bytes, Failure]) -> Part:
    """Return the part of a commit that writes failed requests."""
    puts: list[Change] = [(digest, one.packed()) for digest, one in failures.items()]
    return Part(changes={FAILURES: puts} if puts else {})
