"""JobReader: everything that is read of a job, also while a crawl runs."""

from __future__ import annotations

import heapq
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from time import time
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.leases.failure import stored_failures
from bloomdupe.crawl.progress.history import read_history
from bloomdupe.crawl.progress.pace import plural
from bloomdupe.crawl.totals import Totals
from bloomdupe.errors import (
    BloomDupeError,
    StoreError,
    StoreUnreachableError,
)
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.filter.info import info_of_records
from bloomdupe.filter.opening import is_url
from bloomdupe.frontier.pending_requests import (
    PendingRequest,
    count_pending,
    pending_requests,
)
from bloomdupe.frontier.slot_state import Rest, SlotState, rest_of
from bloomdupe.jobs.listed import FailedRequests, ListedRequest, Selection
from bloomdupe.jobs.state import state_of
from bloomdupe.jobs.view import MOST_SLOTS, Description, Output, View
from bloomdupe.store.format import LATER, QUEUE, StoredSlot
from bloomdupe.store.progress import told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bloomdupe.crawl.leases.failure import Failure
    from bloomdupe.jobs.job import Job
    from bloomdupe.jobs.state import Life
    from bloomdupe.store.snapshot import Snapshot


class JobReader:
    """Reads a job as often as needed. All methods raise the errors of its stores."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._description: Description | None = None

    # The job as a whole

    def read(self) -> View:
        """Read the last checkpoint; :class:`StoreError` if no crawl has used it.

        If Redis does not answer, but has answered before, the last view comes again
        with the ``trouble``.
        """
        try:
            view = self._read().view
        except StoreUnreachableError as error:
            if self._description is None or self._description.view is None:
                raise
            return replace(self._description.view, trouble=str(error))
        if view is None:
            shown = self._job.shown
            raise StoreError(
                f"{shown}: no crawl has used this store; `bloomdupe info {shown}`"
                " shows its contents"
            )
        return view

    def describe(self) -> Description:
        """Describe the job as it was read last; read it if it was not.

        Or describe a filter on Redis that is no crawl.
        """
        job = self._job
        if self._description is None and is_url(job.named) and job.identity is None:
            with BloomFilter.open(job.named, readonly=True) as seen:
                return Description(seen.info(), seen.identity, None)
        return self._description or self._read()

    def contents(self) -> tuple[str, list[str]]:
        """Describe the contents, even if they are damaged; and the output files."""
        try:
            found = self.describe()
        except BloomDupeError as error:
            return f"it cannot be read ({error})", []
        seen = f"{plural(found.filter.keys, 'URL')} seen"
        if found.view is None:
            return seen, []
        held = f"{seen}, {plural(found.view.pending, 'request')} pending"
        stays = [output.uri for output in found.view.outputs]
        return f"{held}, {plural(found.view.pages, 'page')}", stays

    def _read(self) -> Description:
        """Read the last checkpoint.

        Takes a second for a million slots, however many requests are pending in them.
        """
        now, life = time(), self._job.life()
        with self._job.stores() as stores, ExitStack() as stack:
            snapshots = [stack.enter_context(store.snapshot()) for store in stores]
            records = [*map(_record_of_filter, snapshots)]
            filter_ = info_of_records(self._job.shown, stores, records)
            identity = stores[0].header.get("identity", {})
            view = None
            if snapshots[0].record("frontier") is not None:
                notes = records[0]["notes"]
                view = self._view(
                    snapshots, identity, filter_.capacity, notes, life, now
                )
        self._description = Description(filter_, identity, view)
        return self._description

    def _view(
        self,
        snapshots: list[Snapshot],
        identity: dict[str, Any],
        capacity: int,
        notes: dict[str, Any],
        life: Life,
        now: float,
    ) -> View:
        crawls = [snapshot.record("crawl") or {} for snapshot in snapshots]
        frontiers = [snapshot.record("frontier") or {} for snapshot in snapshots]
        ready = sum(snapshot.entries(QUEUE) for snapshot in snapshots)
        later = sum(snapshot.entries(LATER) for snapshot in snapshots)
        firsts = [one.next_later(b"", (), 1)[0] for one in snapshots]
        due = min((first.due for first, *_ in filter(None, firsts)), default=None)
        slots = [*chain.from_iterable(snapshot.slots() for snapshot in snapshots)]
        rests, delays = _paces(slots, now)
        points, runs = read_history(snapshots[0])
        left = sum(one.get("failures_left", 0) for one in crawls)
        return View(
            place=self._job.shown,
            identity=identity,
            capacity=capacity,
            life=life,
            state=state_of(life, notes, ready=ready > 0, due=due, now=now),
            notes=notes,
            rules=self._job.rules(),
            transaction=snapshots[0].transaction,
            pending=ready + later,
            later=later,
            taken_in=sum(frontier.get("sequence", 0) for frontier in frontiers),
            totals=Totals.together(Totals.of(one.get("totals", {})) for one in crawls),
            slots={slot.name: slot.requests for slot in slots},
            resting=rests,
            delays=delays,
            outputs=_outputs(crawls[0]),
            points=points,
            failed=FailedRequests(_failures(snapshots), left),
            runs=runs,
        )

    # Single requests

    def has_slot(self, slot: str) -> bool:
        """Whether a request of a slot is pending or has failed."""
        selection = Selection(slot)
        pending = next(self.requests(selection), None)
        return pending is not None or bool(
            self.failed_requests().selected(selection, ())
        )

    def requests(self, selection: Selection) -> Iterator[ListedRequest]:
        """Yield the pending requests, slot by slot; memory does not grow."""
        with self._job.stores() as stores:
            total = sum(count_pending(store, selection.slot) for store in stores)
            stored = chain.from_iterable(
                pending_requests(store, selection.slot) for store in stores
            )
            found = chain(stored, self._sent(selection.slot))
            for one in told(found, f"Reading {self._job.shown}", total, "requests"):
                listed = ListedRequest.of(one)
                if listed.problem is not None:
                    if selection.pattern is None:
                        yield listed
                elif selection.has(listed.slot, listed.url):
                    yield listed

    def _sent(self, slot: str | None) -> Iterator[PendingRequest]:
        for one in self._job.sent():
            if one.payload and slot in (None, one.slot):
                yield PendingRequest(one.slot, None, b"", one.payload)

    def failed_requests(self) -> FailedRequests:
        """Return those that were not retried since, latest first."""
        with self._job.stores() as stores, ExitStack() as stack:
            snapshots = [stack.enter_context(store.snapshot()) for store in stores]
            return FailedRequests(_failures(snapshots))


def _failures(snapshots: list[Snapshot]) -> list[Failure]:
    found = chain.from_iterable(map(stored_failures, snapshots))
    left = [one for _, one in found if not one.waiting]
    return sorted(left, key=lambda one: -one.time)


def _record_of_filter(snapshot: Snapshot) -> dict[str, Any]:
    record = snapshot.record("filter")
    if record is None:
        raise snapshot.damaged("the record of the filter is missing")
    return record


def _paces(
    slots: list[StoredSlot], now: float
) -> tuple[dict[str, Rest], dict[str, float]]:
    """Return the slots that rest at a Unix time, and the delays of the largest."""
    rests, delays = {}, {}
    for slot in slots:
        if slot.state:
            rest = rest_of(SlotState.read(slot.state, float), now)
            if rest is not None:
                rests[slot.name] = rest
    for slot in heapq.nlargest(MOST_SLOTS, slots, key=lambda slot: slot.requests):
        if slot.state and (delay := SlotState.read(slot.state, float).delay):
            delays[slot.name] = delay
    return dict(sorted(rests.items(), key=lambda one: one[1].until)), delays


def _outputs(crawl: dict[str, Any]) -> list[Output]:
    """Read the feeds; see :class:`bloomdupe.crawl.engines.checkpoint.CrawlRecord`."""
    outputs = []
    for feed in crawl.get("feeds", {}).values():
        size = None if feed["file"] is None else feed["file"]["size"]
        outputs.append(Output(feed["uri"], feed["items"], size))
    return outputs
