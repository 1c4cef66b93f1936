"""HeldJob: a job that this process has, to change its requests."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from bloomdupe.crawl.added_requests import add_request
from bloomdupe.crawl.leases.failure import stored_failures
from bloomdupe.crawl.state.rules_file import rules_of
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.frontier.payload import url_of
from bloomdupe.frontier.pending_requests import count_pending
from bloomdupe.frontier.sent_request import SentRequest, partition_of
from bloomdupe.jobs.changes import (
    Dropped,
    name_of,
    pending_among,
    requeued_among,
    told_portions,
)
from bloomdupe.jobs.selection import Search
from bloomdupe.store.format import FAILURES
from bloomdupe.store.participant import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from typing_extensions import Self

    from bloomdupe.crawl.leases.failure import Failure
    from bloomdupe.crawl.state.rules import Rules
    from bloomdupe.jobs.changes import Added
    from bloomdupe.jobs.project import Project
    from bloomdupe.jobs.selection import Selection
    from bloomdupe.store.batch import Change
    from bloomdupe.store.store import Store


MOST_AT_ONCE = 1_000
"""Requests that are added at once, so that a running crawl need not stop for long."""
MOST_BYTES = 1 << 20
"""Bytes of the stored requests that are added at once, unless one has more."""


class RunningJob:
    """A job that a crawl has, to which requests can be handed over."""

    def __init__(
        self, hand_over: Callable[[list[SentRequest]], None], project: Project
    ) -> None:
        self._hand_over = hand_over
        self.project = project

    def add(self, requests: list[SentRequest], added: Added) -> None:
        """Hand requests over, and count them; the crawl adds those it has not seen."""
        self._hand_over(requests)
        added.handed_over += len(requests)

    def close(self) -> None:
        """Nothing is open."""


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
            job = cls([seen], project, rules_of(store.path))
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

    def _push(self, one: SentRequest) -> None:
        start, due = one.start, one.not_before
        self.push(one.slot, one.priority, one.payload, start=start, not_before=due)

    def add_one(self, one: SentRequest) -> str:
        """Add a request that was not seen; return the name of its count."""
        seen = self._filters[self._number_of(one.slot)]
        return add_request(one, self.rules, seen, self._push)

    def add(self, requests: list[SentRequest], added: Added) -> None:
        """Make requests pending that the job has not seen, and count them."""
        for one in requests:
            added.count(self.add_one(one))
        self.commit()

    def requeue(self, requests: Iterable[SentRequest], added: Added) -> None:
        """Make pages pending again that are done, in one transaction.

        Pages that are pending are left, and so are pages that were never seen. Memory
        grows with the given requests, about 1 kB each.
        """
        from bloomdupe.jobs.request_line import brought_back

        wanted: dict[bytes, SentRequest] = {}
        for one in requests:
            seen = self._filters[self._number_of(one.slot)]
            key, exact = one.keys[0]
            if not seen.contains(key, exact=exact):
                added.unseen += 1
            elif self.rules.keep_out(one.slot, url_of(one.payload)):
                added.blocked += 1
            else:
                wanted[key] = one
        pages = {key: url_of(one.payload) for key, one in wanted.items()}
        for key, _ in pending_among(self.stores, pages, self.project):
            added.waited += wanted.pop(key, None) is not None
        for one in wanted.values():
            self._push(one._replace(payload=brought_back(one.payload)))
        added.taken_in += len(wanted)
        self.commit()

    def requeue_failed(
        self, selection: Selection, reasons: tuple[str, ...], added: Added
    ) -> None:
        """Make requests pending again that failed for these reasons (() are all).

        It is one transaction. Each stays among the failed requests until it succeeds.
        """
        parts = {}
        for number, store in enumerate(self.stores):
            puts = {}
            for digest, one in _failures(store):
                if not (one.is_to_retry(reasons) and selection.has(one.slot, one.url)):
                    continue
                if one.waiting:
                    added.waited += 1
                elif one.payload is None:
                    source = one.parent or "the page that has led to it"
                    added.problems.add(
                        one.url,
                        "it could not be stored, or its page comes again by itself;"
                        f" {source} yields it again",
                    )
                elif self.rules.keep_out(one.slot, one.url):
                    added.blocked += 1
                else:
                    self.push(one.slot, one.priority, one.payload)
                    puts[digest] = one._replace(waiting=True)
            added.taken_in += len(puts)
            parts[number] = _part(puts)
        self.commit(parts)

    # Removing requests

    def drop(self, selection: Selection, pages: dict[bytes, str]) -> Dropped:
        """Remove pending requests: those for the ``pages`` only, if there are any.

        ``pages`` has the URL of each fingerprint. Each thousand is a transaction.
        """
        dropped = 0
        search = Search(pages, self.project) if pages else None
        for number, store in enumerate(self.stores):
            requeued = requeued_among(_failures(store))
            for some in told_portions(store, selection.slot):
                gone = [
                    one
                    for one in some
                    if (search is None or search.key_of(one.payload) is not None)
                    and selection.has_stored(one.slot, one.payload)
                ]
                self.frontiers[number].remove(gone)
                failed = {}
                for one in gone if requeued else ():
                    if same := requeued.get(name_of(one.payload)):
                        digest, failure = same.pop()
                        failed[digest] = failure._replace(waiting=False)
                self.commit({number: _part(failed)})
                dropped += len(gone)
        return Dropped(dropped, sum(map(count_pending, self.stores)))


def add(found: Iterable[SentRequest], job: HeldJob | RunningJob, added: Added) -> None:
    """Add requests that were not seen, in a transaction for every thousand.

    After an interruption, committed requests stay, and count as seen the next time.
    """
    portion: list[SentRequest] = []
    size = 0
    for one in found:
        portion.append(one)
        size += len(one.payload)
        if len(portion) == MOST_AT_ONCE or size >= MOST_BYTES:
            job.add(portion, added)
            portion, size = [], 0
    if portion:
        job.add(portion, added)


def _failures(store: Store) -> Iterator[tuple[bytes, Failure]]:
    with store.snapshot() as snapshot:
        yield from stored_failures(snapshot)


def _part(failures: dict[bytes, Failure]) -> Part:
    """Return the part of a commit that writes failed requests."""
    puts: list[Change] = [(digest, one.packed()) for digest, one in failures.items()]
    return Part(changes={FAILURES: puts} if puts else {})
