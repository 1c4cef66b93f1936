"""JobReader: everything that is read of a job on disk, also while a crawl runs."""

from __future__ import annotations

import heapq
from contextlib import closing
from time import time
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.leases.failure import Failure, stored_failures
from bloomdupe.crawl.progress.history import read_history
from bloomdupe.crawl.progress.rounds import IMPORTED, versions_in
from bloomdupe.crawl.state.rules_file import RulesFile
from bloomdupe.crawl.totals import Totals
from bloomdupe.errors import StoreError, UnserializableError
from bloomdupe.filter.info import StoredFilter
from bloomdupe.frontier.payload import url_of
from bloomdupe.frontier.pending_requests import count_pending, pending_requests
from bloomdupe.frontier.slot_state import Rest, SlotState, rest_of
from bloomdupe.jobs.job_contract import ListedRequest
from bloomdupe.jobs.overview import (
    MOST_SLOTS,
    Description,
    Output,
    Overview,
    RunFigures,
)
from bloomdupe.jobs.state import Signs, state_of
from bloomdupe.jobs.view import FailedRequests, View
from bloomdupe.requests.layout import summary_of
from bloomdupe.store import files
from bloomdupe.store.format import FAILURES, LATER, StoredSlot
from bloomdupe.store.place import place_of
from bloomdupe.store.progress import told

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bloomdupe.jobs.selection import Selection
    from bloomdupe.store.snapshot import Snapshot
    from bloomdupe.store.store import Store


class JobReader:
    """Reads the job with the store at ``path`` as often as needed.

    All methods raise the errors of opening a store.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failed_version: object = None
        self._failed: list[Failure] = []
        self._description: Description | None = None

    def _opened(self) -> Store:
        return place_of(self._path).open(readonly=True)

    # The job as a whole

    def read(self) -> View:
        """Read the last checkpoint; :class:`StoreError` if no crawl has used it."""
        view = self.view()
        if view is None:
            raise StoreError(
                f"{self._path}: no crawl has used this store; `bloomdupe info"
                f" {self._path}` shows its contents"
            )
        return view

    def describe(self) -> Description:
        """Describe the job as it was read last; read it if it was not."""
        if self._description is None:
            self.view()
        assert self._description is not None  # noqa: S101 - it was read
        return self._description

    def view(self) -> View | None:
        """Read the last checkpoint; return None if no crawl has used the store.

        Takes a second for a million slots, however many requests are pending in them.
        """
        now, owner = time(), files.owner_of(self._path)
        with closing(self._opened()) as store, store.snapshot() as snapshot:
            record = snapshot.record("filter")
            if record is None:
                raise store.damaged("the record of the filter is missing")
            failures, view = self._failures(snapshot), None
            if snapshot.record("frontier") is not None:
                view = self._view(
                    store, snapshot, record["notes"], failures, owner, now
                )
            identity = store.header.get("identity", {})
            filter_ = StoredFilter.of(store, record)
        if view is None:
            self._description = Description(filter_, identity, None)
        else:
            self._description = Description(
                filter_, identity, view.job, view.rate, view.to_go
            )
        return view

    def _view(
        self,
        store: Store,
        snapshot: Snapshot,
        notes: dict[str, Any],
        failures: list[Failure],
        owner: files.Owner | None,
        now: float,
    ) -> View:
        frontier = snapshot.record("frontier") or {}
        crawl = snapshot.record("crawl") or {}
        later = snapshot.entries(LATER)
        first = next(snapshot.later(), None)
        points, runs = read_history(snapshot)
        slots = list(snapshot.slots())
        rests, delays = _paces(slots, now)
        totals = Totals.of(crawl.get("totals", {}))
        failed = FailedRequests(failures, crawl.get("failures_left", 0))
        signs = Signs(
            owner=None if owner is None else f"process {owner.process or 'unknown'}",
            beat=None if owner is None else owner.beat,
            ended=None if notes.get("run") == IMPORTED else notes.get("run"),
            ready=frontier["requests"] > 0,
            due=None if first is None else first.due,
            finished_at=notes.get("finished"),
            stays=bool(notes.get("stays")),
        )
        rules = RulesFile(self._path).read()
        written = _written_at(self._path)
        job = Overview(
            state=state_of(signs, now),
            pending=frontier["requests"] + later,
            later=later,
            taken_in=frontier["sequence"],
            totals=totals,
            slots={slot.name: slot.requests for slot in slots},
            resting=rests,
            delays=delays,
            failed=dict(failed.reasons.most_common()),
            blocked=[*rules.blocked],
            runs=RunFigures(
                process=None if owner is None else owner.process,
                last_run=notes.get("run"),
                round=notes.get("generation", 1),
                finished_at=notes.get("finished"),
                checkpoint_at=written,
                transaction=snapshot.transaction,
                runs=totals.runs,
                seconds=totals.seconds,
                outputs=_outputs(crawl),
                paused=sorted(rules.paused),
                versions=versions_in(notes),
            ),
        )
        return View(
            place=str(self._path),
            identity=store.header.get("identity", {}),
            capacity=store.header["capacity"],
            read_at=written,
            job=job,
            points=points,
            failed=failed,
            runs=runs,
            paces={},
        )

    # Single requests

    def requests(self, selection: Selection) -> Iterator[ListedRequest]:
        """Yield the pending requests, slot by slot; memory does not grow."""
        with closing(self._opened()) as store:
            total = count_pending(store, selection.slot)
            found = pending_requests(store, selection.slot)
            for one in told(found, f"Reading {self._path}", total, "requests"):
                slot = one.slot
                try:
                    summary = summary_of(one.payload)
                except UnserializableError as error:
                    if selection.pattern is None:
                        url = url_of(one.payload)
                        yield ListedRequest(slot, "?", url, 0, None, problem=str(error))
                    continue
                if selection.has(slot, summary.url):
                    yield ListedRequest(
                        slot,
                        summary.method,
                        summary.url,
                        summary.priority,
                        summary.callback,
                        one.not_before,
                        payload=summary.rest,
                    )

    def failed_requests(self) -> FailedRequests:
        """Return those that were not retried since, latest first."""
        with closing(self._opened()) as store, store.snapshot() as snapshot:
            return FailedRequests(self._failures(snapshot))

    def _failures(self, snapshot: Snapshot) -> list[Failure]:
        """Read them, if they have changed since the last time."""
        version = snapshot.version(FAILURES)
        if version != self._failed_version:  # they may be many, and rarely change
            found = stored_failures(snapshot)
            left = [one for _, one in found if not one.waiting]
            self._failed = sorted(left, key=lambda one: -one.time)
            self._failed_version = version
        return self._failed


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
        size = None
        if feed["file"] is not None:
            size = crawl["files"][feed["file"]]["size"]
        outputs.append(Output(feed["uri"], feed["items"], size))
    return outputs


def _written_at(path: Path) -> float:
    try:
        return (path / files.DATA).stat().st_mtime
    except OSError as error:
        raise StoreError(f"cannot look at {path / files.DATA}: {error}") from error
