"""HeldJob: a job that this process has, to change its requests."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.added_requests import BLOCKED, TAKEN_IN, add_request
from bloomdupe.crawl.state.failures import Ledger, callback_of, digest_of, page_of
from bloomdupe.crawl.state.rules import Rules
from bloomdupe.frontier.frontier import NEWEST_FIRST, Frontier
from bloomdupe.frontier.pending_requests import pending_requests
from bloomdupe.requests.layout import Visit, url_of
from bloomdupe.store.store import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator
    from pathlib import Path

    from typing_extensions import Self

    from bloomdupe.frontier.pending_requests import PendingRequest
    from bloomdupe.frontier.sent_request import SentRequest
    from bloomdupe.frontier.slot_queue import QueueOrder
    from bloomdupe.jobs.listed import Selection
    from bloomdupe.jobs.project import Project
    from bloomdupe.store.store import Store


MOST_SHOWN = 20
MOST_SAID = 1_000
"""Characters of a problem's description."""


@dataclass
class Problems:
    """Lines that could not be used, and why. Keeps the first ``MOST_SHOWN``."""

    count: int = 0
    shown: list[str] = field(default_factory=list)

    def add(self, where: str, what: str) -> None:
        """Add a problem."""
        self.count += 1
        if len(self.shown) < MOST_SHOWN:
            what = what if len(what) <= MOST_SAID else f"{what[:MOST_SAID]}..."
            self.shown.append(f"{where}: {what}")

    def as_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON."""
        return {"count": self.count, "first": self.shown}

    def lines(self) -> Iterator[str]:
        """Yield the lines to print; none if there is no problem."""
        if self.count:
            yield f"{self.count:,} could not be read:"
        yield from self.shown
        if self.count > len(self.shown):
            yield f"... and {self.count - len(self.shown):,} more"


Counts = Counter[str]
"""Requests that were added by hand, by result: those of
:func:`~bloomdupe.crawl.added_requests.add_request`; and ``was_pending`` (left as they
are), ``unseen`` (they cannot be repeated), and ``handed_over`` to the running crawl,
which is to take them in."""


class HeldJob:
    """A job that no other process has: its frontier and its rules.

    Nothing is durable before :meth:`commit`. As long as it is open, no crawl can run.
    ``close`` gives it back, without uncommitted changes.
    """

    def __init__(
        self, frontier: Frontier, rules: Rules, close: Callable[[], None]
    ) -> None:
        self.frontier = frontier
        self.rules = rules
        self.close = close
        self._failed: dict[int, Ledger] = {}

    @classmethod
    def begun(cls, path: Path, project: Project) -> Self:
        """Begin a job in an empty directory."""
        from bloomdupe.crawl.engines.crawl_job import CrawlJob
        from bloomdupe.settings import JobSettings

        given = project.settings.copy()
        given.set("JOBDIR", str(path.parent), "cmdline")
        job = CrawlJob(JobSettings.read(given), project.spider, project.fingerprinter)
        seen = job.open_filter()
        return cls(Frontier(seen, order=project.order), Rules(), seen.close)

    @property
    def stores(self) -> dict[int, Store]:
        """The stores of its requests, by partition."""
        found = self.frontier.partitions.items()
        return {number: one.store for number, one in found if one.store is not None}

    @property
    def failed(self) -> dict[int, Ledger]:
        """The failed requests in these stores."""
        if not self._failed:
            self._failed = {n: Ledger(store) for n, store in self.stores.items()}
        return self._failed

    def commit(self) -> None:
        """Make everything durable in one transaction."""
        parts = {n: ledger.changes.part() for n, ledger in self._failed.items()}
        self.frontier.checkpoint(*([Part(partitions=parts)] if parts else []))

    # Making requests pending

    def push(self, one: SentRequest, sequence: int | None = None) -> None:
        """Make a request pending, whether it was seen or not.

        ``sequence`` is its age, see :meth:`Frontier.push`.
        """
        self.frontier.push(
            one.slot,
            one.priority,
            one.payload,
            start=one.start,
            not_before=one.not_before,
            sequence=sequence,
        )

    def add_one(self, one: SentRequest) -> str:
        """Add a request that was not seen; return the name of its count."""
        seen = self.frontier.of_slot(one.home).seen
        return add_request(one, self.rules, seen, self.push)

    def add(self, requests: list[SentRequest]) -> Counts:
        """Make requests pending that the job has not seen, and count them."""
        counts = Counts(map(self.add_one, requests))
        self.commit()
        return counts

    def requeue(self, requests: Iterable[SentRequest], project: Project) -> Counts:
        """Make pages pending again that are done, in one transaction; count them.

        Pages that are pending are left, and so are pages that were never seen. Memory
        grows with the given requests, about 1 kB each.
        """
        counts = Counts()
        wanted: dict[bytes, SentRequest] = {}
        for one in requests:
            key, exact = one.keys[0]
            if not self.frontier.of_slot(one.home).seen.contains(key, exact=exact):
                counts["unseen"] += 1
            elif self.rules.keep_out(one.slot, url_of(one.payload)):
                counts[BLOCKED] += 1
            else:
                wanted[key] = one
        for key, _ in pending_among(self.stores.values(), project):
            counts["was_pending"] += wanted.pop(key, None) is not None
        for one in wanted.values():
            self.push(one._replace(payload=brought_back(one.payload)))
        counts[TAKEN_IN] += len(wanted)
        pages = {page_of(digest_of(key)): one.payload for key, one in wanted.items()}
        for ledger in self.failed.values():
            for digest in [one for one in ledger.known if page_of(one) in pages]:
                before, again = ledger.read(digest).payload, pages[page_of(digest)]
                if before and callback_of(before) == callback_of(again):
                    ledger.forget(digest)  # it is pending anew, for its callback
        self.commit()
        return counts

    def requeue_failed(
        self, selection: Selection, reasons: tuple[str, ...], problems: Problems
    ) -> Counts:
        """Make requests pending again that failed for these reasons (() are all).

        It is one transaction. Each stays among the failed requests until it succeeds.
        """
        counts = Counts()
        for ledger in self.failed.values():
            for digest, one in [*ledger.known.items()]:
                if not (one.is_to_retry(reasons) and selection.has(one.slot, one.url)):
                    continue
                if one.waiting:
                    counts["was_pending"] += 1
                elif one.payload is None:
                    problems.add(
                        one.url,
                        "it could not be stored, or its page is revisited anyway;"
                        " `bloomdupe requeue URL --callback NAME` fetches it with a"
                        " method of the spider",
                    )
                elif self.rules.keep_out(one.slot, one.url):
                    counts[BLOCKED] += 1
                else:
                    ledger.take_up(digest, self.push)
                    counts[TAKEN_IN] += 1
        self.commit()
        return counts

    # Removing requests

    def drop(
        self, selection: Selection, project: Project | None, pages: Container[bytes]
    ) -> int:
        """Remove pending requests; return their number.

        If there is a ``project``, those for ``pages`` only, by fingerprint. Each
        thousand is a transaction. A failed request that was to be repeated has failed
        again.
        """
        dropped = 0
        for number, store in self.stores.items():
            ledger = self.failed[number]
            for some in pending_requests(store, selection.slot):
                gone = [
                    one
                    for one in some
                    if selection.has(one.slot, url_of(one.payload))
                    and (project is None or project.page_of(one.payload) in pages)
                ]
                self.frontier.remove(gone)
                for one in gone:
                    ledger.dropped(one.payload)
                self.commit()
                dropped += len(gone)
        return dropped

    @property
    def pending(self) -> int:
        """Number of pending requests, delayed ones included."""
        return self.frontier.pending + self.frontier.waiting


def brought_back(payload: bytes) -> bytes:
    """Return a stored request as a request for a page that was seen.

    The target of a redirect of the page was seen, too, so the request is forced. If a
    rule has the page revisited, its visits begin anew.
    """
    visit = Visit.of(payload)
    renewed = visit.renewed or visit == Visit()
    visit = replace(visit, renewed=renewed, forced=True)
    return visit.added_to(payload)


def order_of(project: Project | None) -> QueueOrder:
    """Return the order of a project, if there is one."""
    return NEWEST_FIRST if project is None else project.order


def pending_among(
    stores: Iterable[Store], project: Project
) -> Iterator[tuple[bytes, PendingRequest]]:
    """Yield the pending requests that can be read, with their fingerprints.

    A store knows requests by slot and order, so this reads all of them.
    """
    for store in stores:
        for one in chain.from_iterable(pending_requests(store)):
            if (key := project.page_of(one.payload)) is not None:
                yield key, one
