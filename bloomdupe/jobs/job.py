"""Job: a job that the user names, in a directory or on Redis, as verbs use it.

A job is a list of stores: a directory is one, a crawl on Redis has one for each
partition. Requests are in the store of their slot, and records of the whole job are in
the first store. A verb needs no case for each kind of job.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.crawl.progress.pace import plural
from bloomdupe.crawl.state.failures import digest_of, page_of, stored_failures
from bloomdupe.errors import (
    BloomDupeError,
    StoreError,
    StoreLockedError,
    StoreMismatchError,
)
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.filter.contents import info_of_records, stored_record
from bloomdupe.filter.parameters import is_url
from bloomdupe.frontier.pending_requests import pending_requests
from bloomdupe.frontier.sent_request import partition_of
from bloomdupe.jobs.held import Counts, pending_among
from bloomdupe.jobs.listed import FailedRequests, FoundUrl, ListedRequest
from bloomdupe.jobs.view import View
from bloomdupe.requests.layout import url_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from scrapy.settings import Settings

    from bloomdupe.crawl.state.rules import Rules
    from bloomdupe.filter.contents import FilterInfo
    from bloomdupe.frontier.pending_requests import PendingRequest
    from bloomdupe.frontier.sent_request import SentRequest
    from bloomdupe.jobs.held import HeldJob, Problems
    from bloomdupe.jobs.listed import Selection
    from bloomdupe.jobs.project import Project
    from bloomdupe.jobs.request_line import Line
    from bloomdupe.jobs.view import Life
    from bloomdupe.store.store import Store, StorePlace

MOST_BYTES = 1 << 16
"""Bytes of the stored requests that are added at once, unless one has more: a running
crawl need not stop for long."""
PAUSE = 0.05
"""Seconds between two checks for a crawl that ends."""


class Removed(NamedTuple):
    """A job that is removed, or about to be."""

    places: list[str]
    """The directories or the URL to remove, without passwords."""
    contents: str
    """The contents, for the question to the user."""


class Job(ABC):
    """A job that the user names. Nothing is opened before it is needed.

    All operations raise :class:`~bloomdupe.errors.BloomDupeError`.
    """

    def __init__(self, named: str) -> None:
        self.named = named
        """A path, or a URL, which may hold a password: do not print it."""

    @property
    @abstractmethod
    def shown(self) -> str:
        """Where it is, for a message."""

    @property
    @abstractmethod
    def missing(self) -> StoreError:
        """The error if there is no job."""

    @abstractmethod
    def places(self) -> Sequence[StorePlace]:
        """Return the places of the stores; empty if there is no job."""

    @property
    def identity(self) -> dict[str, Any] | None:
        """What distinguishes it from any other job; None: there is no job yet."""
        places = self.places()
        if not places:
            return None
        with contextlib.closing(places[0].open(readonly=True)) as store:
            identity: dict[str, Any] | None = store.header.get("identity")
            return identity

    def begun(self) -> Sequence[StorePlace]:
        """Return the places of the stores; refuse a job that is not there."""
        places = self.places()
        if not places:
            raise self.missing
        return places

    @contextlib.contextmanager
    def stores(self) -> Iterator[list[Store]]:
        """Open the stores that were begun, read-only."""
        with contextlib.ExitStack() as stack:
            opened = (one.open(readonly=True) for one in self.begun() if one.exists())
            yield [stack.enter_context(contextlib.closing(one)) for one in opened]

    @abstractmethod
    def rules(self) -> Rules:
        """Return the rules that the user has given to the job."""

    @abstractmethod
    def replace_rules(self, change: Callable[[Rules], Rules]) -> Rules:
        """Replace the rules by what ``change`` makes of them, and return those."""

    @abstractmethod
    def life(self) -> Life:
        """Return who has the job now."""

    @abstractmethod
    def sent(self, stores: Sequence[Store]) -> Iterator[SentRequest]:
        """Yield the requests that are on their way to their store."""

    @abstractmethod
    def hold(self, project: Project | None, *, begin: bool = False) -> HeldJob:
        """Have the job, as no crawl may have it then; ``begin`` one that is missing.

        The ``project`` decides on the order of requests that are pushed.

        Raises :class:`~bloomdupe.errors.StoreLockedError` if another process has it.
        """

    @abstractmethod
    def hand_over(self, requests: list[SentRequest]) -> None:
        """Leave requests for the crawl, which adds them."""

    @property
    def jobs_within(self) -> Sequence[Job]:
        """The jobs in the named directory, if it is no job itself; by name."""
        return []

    @abstractmethod
    def remove(self, confirm: Callable[[Removed], None]) -> Removed:
        """Remove the job, which does not run, unless ``confirm`` raises an error."""

    # Reading, also while a crawl runs

    def read(self) -> View:
        """Read the last checkpoint; :class:`StoreError` if no crawl has used it."""
        *_, view = self.describe()
        if view is None:
            raise StoreError(
                f"{self.shown}: no crawl has used this store; `bloomdupe info"
                f" {self.shown}` shows its contents"
            )
        return view

    def describe(self) -> tuple[FilterInfo, dict[str, Any], View | None]:
        """Read the filter, the identity of its job, and the job, if it has one."""
        if is_url(self.named) and self.identity is None:
            with BloomFilter.open(self.named, readonly=True) as seen:
                return seen.info(), seen.identity, None
        life = self.life()
        with self.stores() as stores:
            snapshots = [store.now for store in stores]
            records = [*map(stored_record, snapshots)]
            filter_ = info_of_records(self.shown, stores, records)
            identity = stores[0].header.get("identity", {})
            if snapshots[0].record("frontier") is None:
                return filter_, identity, None
            known = (self.shown, identity, filter_)
            return filter_, identity, View(*known, snapshots, life, self.rules())

    def contents(self) -> str:
        """Describe the contents, even if they are damaged."""
        try:
            filter_, _, view = self.describe()
        except BloomDupeError as error:
            return f"it cannot be read ({error})"
        known = [f"{plural(filter_.keys, 'URL')} seen"]
        if view is not None:
            known.append(f"{plural(view.pending, 'request')} pending")
            known.append(plural(view.pages, "page"))
        return ", ".join(known)

    def requests(self, selection: Selection) -> Iterator[ListedRequest]:
        """Yield the pending requests, slot by slot; memory does not grow."""
        with self.stores() as stores:
            found: Iterator[Iterable[PendingRequest | SentRequest]]
            found = chain(*(pending_requests(one, selection.slot) for one in stores))
            for one in chain.from_iterable(chain(found, [self.sent(stores)])):
                if one.payload and selection.has(one.slot, url_of(one.payload)):
                    yield ListedRequest.of(one)

    def failed_requests(
        self, selection: Selection, reasons: tuple[str, ...] = ()
    ) -> FailedRequests:
        """Return those that failed for these reasons (() are all), latest first.

        They were not retried since.
        """
        with self.stores() as stores:
            return FailedRequests.of(
                [store.now for store in stores],
                lambda one: one.is_for(reasons) and selection.has(one.slot, one.url),
            )

    def look_up(
        self, settings: Settings | None, lines: Iterable[Line], problems: Problems
    ) -> list[FoundUrl]:
        """Return the state of each page; lines that are no request are ``problems``."""
        from bloomdupe.jobs.request_line import read_all  # and so Scrapy

        project = self.project(settings)
        known: dict[tuple[str, bytes], bool] = {}
        with contextlib.ExitStack() as stack:
            filters = [
                stack.enter_context(BloomFilter.open(place, readonly=True))
                if place.exists()
                else BloomFilter(1)
                for place in self.begun()
            ]
            for one in read_all(lines, project, problems):
                key, exact = one.keys[0]
                seen = filters[partition_of(one.home, len(filters))]
                known[url_of(one.payload), key] = seen.contains(key, exact=exact)
        pending: dict[bytes, list[ListedRequest]] = {key: [] for _, key in known}
        with self.stores() as stores:
            for key, found in pending_among(stores, project):
                if key in pending:
                    pending[key].append(ListedRequest.of(found))
            failures = chain.from_iterable(stored_failures(one.now) for one in stores)
            in_order = sorted(failures, key=lambda one: one[1].time)
        failed = {page_of(digest): failure for digest, failure in in_order}
        # A URL that is not seen may be pending all the same, if another filter marks.
        return [
            FoundUrl(
                url,
                seen or bool(pending[key]),
                pending[key],
                failed.get(page_of(digest_of(key))),
            )
            for (url, key), seen in known.items()
        ]

    # Changing

    def add(self, project: Project, found: Iterator[SentRequest]) -> Counts:
        """Add requests that were not seen, some hundreds in each transaction.

        The job may run; a missing job begins. After an interruption, committed requests
        stay, and count as seen the next time.
        """
        counts, held, portions = Counts(), None, portioned(found)
        if self.life().owner is None:
            # Another process may be quicker.
            with contextlib.suppress(StoreLockedError):
                held = self.hold(project, begin=True)
        if held is None:
            for some in portions:
                self.hand_over(some)
                counts["handed_over"] += len(some)
            return counts
        with contextlib.closing(held):
            for some in portions:
                counts += held.add(some)
        return counts

    def changing(self, project: Project | None) -> HeldJob:
        """Open the job for changes; refuse with StoreLockedError if a crawl has it."""
        self.check_stopped()
        return self.hold(project)

    def check_stopped(self) -> None:
        """Refuse with :class:`StoreLockedError` if a crawl has the job."""
        life = self.life()
        if life.is_held:
            raise StoreLockedError(
                f"{self.shown} is in use by {life.owner}, and this needs a job that"
                " does not run: stop the crawl (Ctrl-C, or `bloomdupe stop --wait`),"
                " run this again, and then the crawl"
            )

    def project(
        self, settings: Settings | None, spider: str | None = None, *, new: bool = False
    ) -> Project:
        """Return the project of the settings; see :meth:`Project.of_job`.

        A ``new`` job need not be there.
        """
        from bloomdupe.jobs.project import Project  # which imports Scrapy

        identity = self.identity
        if identity is None and not new:
            raise self.missing
        return Project.of_job(settings, spider, identity, self.shown)

    def change_rules(self, change: Callable[[Rules], Rules]) -> tuple[Rules, str]:
        """Change the rules of the job, which a run reads at its checkpoints.

        Returns them, and who obeys them when, as a sentence.
        """
        rules, life = self.replace_rules(change), self.life()
        if life.heartbeat is None:
            return rules, "The next run obeys."
        return rules, f"The running crawl ({life.owner}) obeys at its next checkpoint."

    def stop(self, *, wait: bool) -> Life:
        """Ask the crawl to stop, and ``wait`` for its end; return who had the job.

        It is a rule that the next run ignores: a run reads the rules before its first
        heartbeat, and stops if there is a later stop.
        """
        self.begun()
        before = now = self.life()
        if before.heartbeat is None:
            raise StoreMismatchError("no crawl runs, so there is nothing to stop")
        self.replace_rules(lambda rules: rules.stopping(time.time_ns()))
        while wait and now.names & before.names and now.is_held:
            time.sleep(PAUSE)
            now = self.life()
        return before


def portioned(found: Iterator[SentRequest]) -> Iterator[list[SentRequest]]:
    """Yield requests in portions that are added at once."""
    portion: list[SentRequest] = []
    size = 0
    for one in found:
        portion.append(one)
        size += len(one.payload)
        if size >= MOST_BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion
