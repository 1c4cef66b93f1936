"""JobReader: everything that is read of a job, also while a crawl runs."""

from __future__ import annotations

import heapq
from contextlib import ExitStack, contextmanager
from itertools import chain
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.crawl.progress.history import Totals, read_history
from bloomdupe.crawl.progress.pace import plural
from bloomdupe.crawl.state.failures import digest_of, page_of, stored_failures
from bloomdupe.errors import BloomDupeError, StoreError
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.filter.contents import info_of_records, stored_record
from bloomdupe.filter.parameters import is_url
from bloomdupe.frontier.pending_requests import pending_requests
from bloomdupe.frontier.sent_request import partition_of
from bloomdupe.frontier.slot_state import SlotState, backoff_of
from bloomdupe.jobs.held import pending_among
from bloomdupe.jobs.listed import FailedRequests, ListedRequest, Selection
from bloomdupe.jobs.view import MOST_SLOTS, View, state_of
from bloomdupe.requests.layout import url_of
from bloomdupe.store.format import DELAYED, QUEUE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scrapy.settings import Settings

    from bloomdupe.crawl.state.failures import Failure
    from bloomdupe.filter.contents import FilterInfo
    from bloomdupe.jobs.job import Job
    from bloomdupe.jobs.lines import Line, Problems
    from bloomdupe.store.snapshot import Snapshot
    from bloomdupe.store.store import Store


class JobReader:
    """Reads a job as often as needed. All methods raise the errors of its stores."""

    def __init__(self, job: Job) -> None:
        self._job = job

    @contextmanager
    def _snapshots(self) -> Iterator[tuple[list[Store], list[Snapshot]]]:
        with self._job.stores() as stores, ExitStack() as stack:
            yield stores, [stack.enter_context(store.snapshot()) for store in stores]

    # The job as a whole

    def read(self) -> View:
        """Read the last checkpoint; :class:`StoreError` if no crawl has used it."""
        *_, view = self.describe()
        if view is None:
            shown = self._job.shown
            raise StoreError(
                f"{shown}: no crawl has used this store; `bloomdupe info {shown}`"
                " shows its contents"
            )
        return view

    def describe(self) -> tuple[FilterInfo, dict[str, Any], View | None]:
        """Read the filter, the identity of its job, and the job, if it has one.

        Takes a second for a million slots, however many requests are pending in them.
        """
        job = self._job
        if is_url(job.named) and job.identity is None:
            with BloomFilter.open(job.named, readonly=True) as seen:
                return seen.info(), seen.identity, None
        now, life = time(), job.life()
        with self._snapshots() as (stores, snapshots):
            records = [*map(stored_record, snapshots)]
            filter_ = info_of_records(job.shown, stores, records)
            identity = stores[0].header.get("identity", {})
            if snapshots[0].record("frontier") is None:
                return filter_, identity, None
            points, runs = read_history(snapshots[0])
            notes = records[0]["notes"]
            known = _counts(snapshots, filter_, notes, now)
            ready = known["pending"] > known["delayed"]
            first = chain.from_iterable(
                one.next_delayed(b"", (), 1)[0] for one in snapshots
            )
            due = min((one.due for one in first), default=None)
            view = View(
                place=job.shown,
                identity=identity,
                life=life,
                state=state_of(life, notes, ready=ready, due=due, now=now),
                rules=job.rules(),
                points=points,
                runs=runs,
                **known,
            )
        return filter_, identity, view

    def contents(self) -> tuple[str, list[str]]:
        """Describe the contents, even if they are damaged; and the output files."""
        try:
            filter_, _, view = self.describe()
        except BloomDupeError as error:
            return f"it cannot be read ({error})", []
        seen = f"{plural(filter_.keys, 'URL')} seen"
        if view is None:
            return seen, []
        held = f"{seen}, {plural(view.pending, 'request')} pending"
        stays = [output["uri"] for output in view.outputs]
        return f"{held}, {plural(view.pages, 'page')}", stays

    # Single requests

    def has_slot(self, slot: str) -> bool:
        """Whether a request of a slot is pending or has failed."""
        selection = Selection(slot)
        return any(True for _ in self.requests(selection)) or bool(
            self.failed_requests(selection).requests
        )

    def requests(self, selection: Selection) -> Iterator[ListedRequest]:
        """Yield the pending requests, slot by slot; memory does not grow."""
        slot = selection.slot
        with self._job.stores() as stores:
            stored = chain.from_iterable(
                pending_requests(store, slot) for store in stores
            )
            sent = (
                one
                for one in self._job.sent()
                if one.payload and slot in (None, one.slot)
            )
            of = ListedRequest.of
            for listed in chain(map(of, stored), map(of, sent)):
                if listed.problem is not None:
                    if selection.pattern is None:
                        yield listed
                elif selection.has(listed.slot, listed.url):
                    yield listed

    def failed_requests(
        self, selection: Selection, reasons: tuple[str, ...] = ()
    ) -> FailedRequests:
        """Return those that failed for these reasons (() are all), latest first.

        They were not retried since.
        """
        with self._snapshots() as (_, snapshots):
            found = _failures(snapshots)
        return FailedRequests(
            [
                one
                for one in found
                if one.is_for(reasons) and selection.has(one.slot, one.url)
            ]
        )


def _failures(snapshots: list[Snapshot]) -> list[Failure]:
    found = chain.from_iterable(map(stored_failures, snapshots))
    left = [one for _, one in found if not one.waiting]
    return sorted(left, key=lambda one: -one.time)


def _counts(
    snapshots: list[Snapshot], filter_: FilterInfo, notes: dict[str, Any], now: float
) -> dict[str, Any]:
    """Return the fields of a view that are counts, or are in the records of a crawl."""
    crawls = [snapshot.record("crawl") or {} for snapshot in snapshots]
    frontiers = [snapshot.record("frontier") or {} for snapshot in snapshots]
    delayed = sum(snapshot.entries(DELAYED) for snapshot in snapshots)
    slots = [*chain.from_iterable(snapshot.slots() for snapshot in snapshots)]
    states = {slot.name: SlotState.read(slot.state) for slot in slots if slot.state}
    backoffs = {name: backoff_of(state, now) for name, state in states.items()}
    backing_off = [
        (name, backoff) for name, backoff in backoffs.items() if backoff is not None
    ]
    largest = heapq.nlargest(MOST_SLOTS, slots, key=lambda slot: slot.requests)
    left = sum(one.get("failures_left", 0) for one in crawls)
    return {
        "capacity": filter_.capacity,
        "notes": notes,
        "transaction": snapshots[0].transaction,
        "pending": sum(one.entries(QUEUE) for one in snapshots) + delayed,
        "delayed": delayed,
        "taken_in": sum(one.get("sequence", 0) for one in frontiers),
        "totals": Totals.together(Totals.of(one.get("totals", {})) for one in crawls),
        "slots": {slot.name: slot.requests for slot in slots},
        "backing_off": dict(sorted(backing_off, key=lambda one: one[1].until)),
        "delays": {
            slot.name: states[slot.name].delay
            for slot in largest
            if slot.name in states and states[slot.name].delay
        },
        # See bloomdupe.crawl.engines.checkpoint.record_of.
        "outputs": [
            {
                "uri": feed["uri"],
                "items": feed["items"],
                "bytes": feed["file"] and feed["file"]["size"],
            }
            for feed in crawls[0].get("feeds", {}).values()
        ],
        "failed": FailedRequests(_failures(snapshots), left),
    }


class FoundUrl(NamedTuple):
    """The state of a URL."""

    url: str
    seen: bool
    pending: list[ListedRequest]
    """The pending requests for it."""
    failed: Failure | None
    """Its last failure, if it has not succeeded since."""


def look_up(
    job: Job,
    settings: Settings | None,
    lines: Iterable[Line],
    problems: Problems,
) -> list[FoundUrl]:
    """Return the state of each URL, as of the last checkpoint.

    Lines that are no requests become ``problems``.
    """
    from bloomdupe.jobs.project import Project
    from bloomdupe.jobs.request_line import Defaults, read_all

    with job.filters() as filters:
        identity = filters[0].identity
        project = Project.of_job(settings, None, identity, job.shown)
        known: dict[str, tuple[bytes, bool]] = {}
        for one in read_all(lines, Defaults(), project, problems):
            key, exact = one.keys[0]
            seen = filters[partition_of(one.slot, len(filters))]
            known[url_of(one.payload)] = key, seen.contains(key, exact=exact)
    urls = {key: url for url, (key, _) in known.items()}
    pending: dict[bytes, list[ListedRequest]] = {}
    failed: dict[bytes, Failure] = {}
    with job.stores() as stores:
        for key, found in pending_among(stores, project.finder(urls)):
            pending.setdefault(key, []).append(ListedRequest.of(found))
        for store in stores:
            with store.snapshot() as snapshot:
                for digest, failure in stored_failures(snapshot):
                    page = page_of(digest)
                    if page not in failed or failed[page].time < failure.time:
                        failed[page] = failure
    # A URL that is not seen may be pending all the same, if another filter marks.
    return [
        FoundUrl(
            url,
            seen or key in pending,
            pending.get(key, []),
            failed.get(page_of(digest_of(key))),
        )
        for url, (key, seen) in known.items()
    ]
