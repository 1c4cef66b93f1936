"""The state of a job on disk, read from its store, also while a crawl runs."""

from __future__ import annotations

import heapq
from contextlib import closing
from time import time
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.later.rests import rests_in
from bloomdupe.crawl.leases.failure import Failure, stored_failures
from bloomdupe.crawl.progress.history import read_history
from bloomdupe.crawl.progress.rounds import IMPORTED, versions_in
from bloomdupe.crawl.state.delays import SECONDS
from bloomdupe.crawl.state.rules_file import RulesFile
from bloomdupe.crawl.totals import Totals
from bloomdupe.errors import StoreError
from bloomdupe.frontier.pending_requests import slots_of
from bloomdupe.jobs.overview import MOST_SLOTS, Output, Overview, RunFigures
from bloomdupe.jobs.state import Signs, state_of
from bloomdupe.jobs.view import FailedRequests, View
from bloomdupe.store import files
from bloomdupe.store.format import DELAYS, FAILURES, LATER, name_digest
from bloomdupe.store.place import place_of

if TYPE_CHECKING:
    from pathlib import Path

    from bloomdupe.store.snapshot import Snapshot
    from bloomdupe.store.store import Store


def _delays(
    store: Store, slots: dict[str, int], given: dict[str, float]
) -> dict[str, float]:
    """Return the delays of the largest slots; ``given`` are those configured."""
    largest = heapq.nlargest(MOST_SLOTS, slots, key=slots.__getitem__)
    delays = {}
    with store.snapshot() as snapshot:
        for slot in largest:
            stored = snapshot.get(DELAYS, name_digest(slot))
            delay = given.get(slot, given.get(""))
            if stored is not None:
                (delay,) = SECONDS.unpack(stored)
            if delay:
                delays[slot] = delay
    return delays


def _outputs(snapshot: Snapshot, crawl: dict[str, Any]) -> list[Output]:
    """Read the feeds; see :class:`bloomdupe.crawl.engines.checkpoint.CrawlRecord`."""
    outputs = []
    for feed in crawl.get("feeds", {}).values():
        size = None
        if feed["file"] is not None:
            name = f"feed{feed['file']}"
            file = crawl["files"][feed["file"]]
            size = file["base"]
            if name in crawl["blobs"]:
                piece = len(snapshot.blob(name, crawl["blobs"][name]))
                size += piece - file.get("held", 0)
        outputs.append(Output(feed["uri"], feed["items"], size))
    return outputs


def _written_at(path: Path) -> float:
    try:
        return (path / files.DATA).stat().st_mtime
    except OSError as error:
        raise StoreError(f"cannot look at {path / files.DATA}: {error}") from error


class FailureReader:
    """Reads the failed requests, if they have changed since the last time."""

    def __init__(self) -> None:
        self._total: object = None
        self.requests: list[Failure] = []
        """Those that were not retried since, latest first."""

    def read(self, snapshot: Snapshot) -> list[Failure]:
        """Return the failed requests."""
        total = snapshot.version(FAILURES)
        if total != self._total:  # they may be many, and rarely change
            found = stored_failures(snapshot)
            left = [one for _, one in found if not one.waiting]
            self.requests = sorted(left, key=lambda one: -one.time)
            self._total = total
        return self.requests


class StoreReader:
    """Reads a job on disk as often as needed, also while it runs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failures = FailureReader()

    def read(self) -> View:
        """Read the last checkpoint.

        Raises the errors of opening a store, and :class:`StoreError` if no crawl has
        used it.
        """
        view = self.view()
        if view is None:
            raise StoreError(
                f"{self._path}: no crawl has used this store; `bloomdupe info"
                f" {self._path}` shows its contents"
            )
        return view

    def view(self) -> View | None:
        """Read the last checkpoint; return None if no crawl has used the store.

        Takes a second for a million slots, however many requests are pending in them.
        """
        now, owner = time(), files.owner_of(self._path)
        with closing(place_of(self._path).open(readonly=True)) as store:
            with store.snapshot() as snapshot:
                frontier = snapshot.record("frontier")
                crawl = snapshot.record("crawl") or {}
                outputs = _outputs(snapshot, crawl)
                notes = (snapshot.record("filter") or {}).get("notes", {})
                transaction = snapshot.transaction
                later = snapshot.entries(LATER)
                first = next(snapshot.later(), None)
                failures = self._failures.read(snapshot)
                points, runs = read_history(snapshot)
            if frontier is None:
                return None
            slots = {slot.name: slot.requests for slot in slots_of(store)}
            delays = _delays(store, slots, crawl.get("delays", {}))
            header = store.header
        totals = Totals.of(crawl.get("totals", {}))
        failed = FailedRequests(failures, crawl.get("failures_left", 0))
        written = _written_at(self._path)
        signs = Signs(
            owner=None if owner is None else f"process {owner.process or 'unknown'}",
            beat=None if owner is None else owner.beat,
            ended=None if notes.get("run") == IMPORTED else notes.get("run"),
            ready=frontier["requests"] > 0,
            due=None if first is None else first.due,
            finished_at=notes.get("finished"),
            stays=bool(notes.get("stays")),
        )
        rests, rules = rests_in(crawl, now), RulesFile(self._path).read()
        job = Overview(
            state=state_of(signs, now),
            pending=frontier["requests"] + later,
            later=later,
            taken_in=frontier["sequence"],
            totals=totals,
            slots=slots,
            resting={slot: rest for slot, rest in rests.items() if slot in slots},
            delays=delays,
            failed=dict(failed.reasons.most_common()),
            blocked=[*rules.blocked],
            runs=RunFigures(
                process=None if owner is None else owner.process,
                last_run=notes.get("run"),
                round=notes.get("generation", 1),
                finished_at=notes.get("finished"),
                checkpoint_at=written,
                transaction=transaction,
                runs=totals.runs,
                seconds=totals.seconds,
                outputs=outputs,
                paused=sorted(rules.paused),
                versions=versions_in(notes),
            ),
        )
        return View(
            place=str(self._path),
            identity=header.get("identity", {}),
            capacity=header["capacity"],
            read_at=written,
            job=job,
            points=points,
            failed=failed,
            runs=runs,
            paces={},
        )
