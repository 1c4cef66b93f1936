"""HeldJob: a job that this process has, to change its requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bloomdupe.crawl.added_requests import add_request
from bloomdupe.crawl.state.failures import stored_failures
from bloomdupe.crawl.state.rules import Rules
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.frontier.pending_requests import count_pending, portions
from bloomdupe.frontier.sent_request import SentRequest, partition_of
from bloomdupe.jobs.lines import Problems
from bloomdupe.requests.layout import url_of
from bloomdupe.store.format import FAILURES
from bloomdupe.store.store import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from typing_extensions import Self

    from bloomdupe.crawl.state.failures import Failure
    from bloomdupe.filter.bloom import BloomFilter
    from bloomdupe.frontier.pending_requests import PendingRequest
    from bloomdupe.jobs.listed import Selection
    from bloomdupe.jobs.project import Project
    from bloomdupe.store.store import Changes, Store


@dataclass
class Added:
    """Counts of requests that were added by hand, by result."""

    taken_in: int = 0
    """Requests that are pending now."""
    seen: int = 0
    """Requests that were seen before, and so skipped."""
    was_pending: int = 0
    """Requests that were pending already, and so left as they are."""
    unseen: int = 0
    """Requests that were never seen, and so cannot be repeated."""
    blocked: int = 0
    """Requests that a rule of ``bloomdupe block`` keeps out."""
    handed_over: int = 0
    """Requests that the running crawl is to take in."""
    problems: Problems = field(default_factory=Problems)

    def count(self, name: str) -> None:
        """Count a request by the name of a field."""
        setattr(self, name, getattr(self, name) + 1)


class HeldJob:
    """A job that no other process has: its filters, frontiers and rules.

    There is one of each for each store. Nothing is durable before :meth:`commit`. As
    long as it is open, no crawl can run. A job of several stores comes with functions
    that ``write`` to all of them, and ``close`` them.
    """

    def __init__(
        self,
        filters: list[BloomFilter],
        project: Project | None,
        rules: Rules,
        write: Callable[[list[Frontier], Mapping[int, Part]], None] | None = None,
        close: Callable[[], None] | None = None,
    ) -> None:
        self._filters = filters
        self._project = project
        self.rules = rules
        order = {} if project is None else project.order._asdict()
        self._starts_apart = order.pop("starts_apart", True)
        self.frontiers = [Frontier(seen, **order) for seen in filters]
        stores = [frontier.store for frontier in self.frontiers]
        self.stores = [store for store in stores if store is not None]
        self.seen, self.frontier = filters[0], self.frontiers[0]
        self._write = write
        self.close = close or self.seen.close
        """Closes the stores, without uncommitted changes."""

    @classmethod
    def begun(cls, path: Path, project: Project) -> Self:
        """Begin a job in an empty directory."""
        from bloomdupe.crawl.engines.crawl_job import CrawlJob
        from bloomdupe.settings import JobSettings

        given = project.settings.copy()
        given.set("JOBDIR", str(path.parent), "cmdline")
        job = CrawlJob(JobSettings.read(given), project.spider, project.fingerprinter)
        return cls([job.open_filter()], project, Rules())

    @property
    def project(self) -> Project:
        """The project of the job."""
        assert self._project is not None  # noqa: S101 - it is opened by URL
        return self._project

    def commit(self, parts: Mapping[int, Part] | None = None) -> None:
        """Make everything durable in one transaction, with more ``parts`` by store."""
        if self._write is None:
            self.frontier.checkpoint(*(parts or {}).values())
        else:
            self._write(self.frontiers, parts or {})

    def _number_of(self, slot: str) -> int:
        """Return the number of the store with the requests of a slot."""
        return partition_of(slot, len(self.frontiers))

    # Making requests pending

    def push(self, one: SentRequest, sequence: int | None = None) -> None:
        """Make a request pending, whether it was seen or not.

        ``sequence`` is its age, see :meth:`Frontier.push`.
        """
        self.frontiers[self._number_of(one.slot)].push(
            one.slot,
            one.priority,
            one.payload,
            start=one.start and self._starts_apart,
            not_before=one.not_before,
            sequence=sequence,
        )

    def add_one(self, one: SentRequest) -> str:
        """Add a request that was not seen; return the name of its count."""
        seen = self._filters[self._number_of(one.slot)]
        return add_request(one, self.rules, seen, self.push)

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
        urls = {key: url_of(one.payload) for key, one in wanted.items()}
        for key, _ in pending_among(self.stores, urls, self.project):
            added.was_pending += wanted.pop(key, None) is not None
        for one in wanted.values():
            self.push(one._replace(payload=brought_back(one.payload)))
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
            puts: dict[bytes, bytes] = {}
            for digest, one in _failures(store):
                if not (one.is_to_retry(reasons) and selection.has(one.slot, one.url)):
                    continue
                if one.waiting:
                    added.was_pending += 1
                elif one.payload is None:
                    source = one.parent or "the page that has led to it"
                    added.problems.add(
                        one.url,
                        "it could not be stored, or its page is revisited anyway;"
                        f" {source} yields it again",
                    )
                elif self.rules.keep_out(one.slot, one.url):
                    added.blocked += 1
                else:
                    self.push(SentRequest(one.slot, one.priority, one.payload))
                    puts[digest] = one._replace(waiting=True).packed()
            added.taken_in += len(puts)
            parts[number] = _part(puts)
        self.commit(parts)

    # Removing requests

    def drop(self, selection: Selection, pages: Mapping[bytes, str] | None) -> int:
        """Remove pending requests, those for some ``pages`` only; return their number.

        ``pages`` are their URLs by fingerprint; None: any. Each thousand is a
        transaction. A failed request that was to be repeated has failed again.
        """
        found = None if pages is None else self.project.finder(pages)
        dropped = 0
        for number, store in enumerate(self.stores):
            waiting = {
                one.url: (digest, one)
                for digest, one in _failures(store)
                if one.waiting
            }
            for some in portions(store, selection.slot):
                gone = [
                    one
                    for one in some
                    if selection.has_stored(one.slot, one.payload)
                    and (found is None or found(one.payload) is not None)
                ]
                self.frontiers[number].remove(gone)
                urls = (url_of(one.payload) for one in gone)
                puts = {
                    digest: failure._replace(waiting=False).packed()
                    for digest, failure in (
                        waiting.pop(u) for u in urls if u in waiting
                    )
                }
                self.commit({number: _part(puts)})
                dropped += len(gone)
        return dropped

    @property
    def pending(self) -> int:
        """Number of pending requests in the stores."""
        return sum(map(count_pending, self.stores))


def _failures(store: Store) -> list[tuple[bytes, Failure]]:
    with store.snapshot() as snapshot:
        return [*stored_failures(snapshot)]


def _part(failures: Changes) -> Part:
    """Return the part of a commit that writes failed requests."""
    return Part(changes={FAILURES: failures} if failures else {})


def pending_among(
    stores: list[Store], pages: Mapping[bytes, str], project: Project
) -> Iterator[tuple[bytes, PendingRequest]]:
    """Yield the pending requests for some pages, each with its fingerprint.

    ``pages`` are their URLs, by fingerprint. A store knows requests by slot and order,
    so this reads all of them.
    """
    found = project.finder(pages)
    for store in stores:
        for some in portions(store):
            for one in some:
                if (key := found(one.payload)) is not None:
                    yield key, one
