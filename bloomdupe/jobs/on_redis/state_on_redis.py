"""The state of a crawl on Redis, read partition by partition, again and again."""

from __future__ import annotations

import heapq
import time
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.engines.on_redis.going.slot_values import DELAY, rests_of
from bloomdupe.crawl.engines.on_redis.shared_look import unpacked
from bloomdupe.crawl.engines.on_redis.shared_totals import totals_of
from bloomdupe.crawl.progress.history import Point, Ran
from bloomdupe.crawl.progress.pace import RECENT, plural
from bloomdupe.crawl.progress.rounds import FINISHED
from bloomdupe.errors import StoreError, StoreUnreachableError
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.filter.sizing import expected_loss
from bloomdupe.jobs.on_redis.failures_on_redis import FailuresOnRedis
from bloomdupe.jobs.on_redis.requests_on_redis import RequestsOnRedis
from bloomdupe.jobs.overview import MOST_SLOTS, Overview
from bloomdupe.jobs.state import Signs, state_of
from bloomdupe.jobs.view import Description, View
from bloomdupe.jobs.worker_figures import PartitionedFilter, WorkerFigures
from bloomdupe.redis.frontier_reader import FrontierReader, kind_at
from bloomdupe.store.progress import told
from bloomdupe.store.redis.address import Address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bloomdupe.frontier.slot_state import Rest
    from bloomdupe.jobs.selection import Selection
    from bloomdupe.jobs.view import FailedRequests, ListedItems, ListedRequest
    from bloomdupe.redis.frontier_reader import PartitionState

MOST = 10
"""Number of reasons to name."""
NO_WORKER = "no worker is alive"


def overview(
    reader: FrontierReader, failures: FailuresOnRedis
) -> tuple[Overview, FailedRequests]:
    """Return the state and the failed requests of a crawl.

    It takes a second for a million slots, and 200 MB.
    """
    reader.check_still_there()
    alive = reader.workers()
    states = reader.states()
    memory, limit = reader.memory_used()
    now = time.time()
    slots, resting, delays = _slots(reader, states, now)
    failed = failures.read(states)
    job = Overview(
        state=state_of(_signs(reader, alive, states, now), now),
        pending=sum(one.pending for one in states),
        later=sum(one.later for one in states),
        taken_in=sum(one.pushed for one in states),
        totals=totals_of(one.totals for one in states),
        slots=slots,
        resting=resting,
        delays=delays,
        failed=dict(failed.reasons.most_common()),
        blocked=reader.read_rules(),
        workers=WorkerFigures(
            workers=len(alive),
            partitions=len(states),
            unowned_partitions=sum(not one.owner for one in states),
            output_entries=sum(one.entries for one in states),
            memory_bytes=memory,
            memory_limit=limit or None,
            leased=sum(one.leased for one in states),
            set_aside=sum(one.aside for one in states),
            set_aside_reasons=[why for one in states for why in one.reasons][:MOST],
            round=reader.round,
        ),
    )
    return job, failed


def _signs(
    reader: FrontierReader, alive: list[str], states: list[PartitionState], now: float
) -> Signs:
    """Return the signs of life: the leases of the workers.

    From afar, a killed worker looks like a worker that hangs. A crawl has not begun
    before a worker has begun a request.
    """
    owner, beat, ended = None, None, None
    if any(one.done or one.leased for one in states):
        ended = NO_WORKER
    ready = any(one.slots or one.leased for one in states)
    due = min((one.due for one in states if one.later), default=None)
    stays = reader.stays
    pending = ready or stays or due is not None
    if ended and not pending and reader.finished:
        ended = FINISHED
    elif alive:
        owner, beat = plural(len(alive), "worker"), now
    elif lost := [one for one in states if one.lost_owner]:
        owner = ", ".join(sorted({one.lost_owner for one in lost}))
        beat = now - min(one.lost_for for one in lost)
    return Signs(owner, beat, ended, ready, due, stays=stays, patience=0.0)


def _slots(
    reader: FrontierReader, states: list[PartitionState], now: float
) -> tuple[dict[str, int], dict[str, Rest], dict[str, float]]:
    """Return the pending requests of each slot, the slots that rest, and the delays."""
    slots: dict[str, int] = {}
    about: dict[str, dict[str, Any]] = {}
    for one in states:
        if one.slots:
            for name, count in reader.slots(one.number).items():
                slots[name] = slots.get(name, 0) + count
        if one.slots or one.leased or one.later:
            about |= reader.slot_states(one.number)
    resting = rests_of(about, now)
    for slot in resting:
        slots.setdefault(slot, 0)
    largest = heapq.nlargest(MOST_SLOTS, slots, key=slots.__getitem__)
    known = {slot: about[slot] for slot in largest if slot in about}
    delays = {slot: state[DELAY] for slot, state in known.items() if DELAY in state}
    return slots, resting, delays


def _filter(reader: FrontierReader) -> PartitionedFilter:
    """Calculate the figures of the filters; takes 2 ms for each partition."""
    states = reader.states()
    keys = sum(one.keys for one in states)
    weighted = sum(
        min(1.0, sum(shape.rate(count) for shape, count in one.layers)) * one.keys
        for one in states
    )
    return PartitionedFilter(
        path=reader.shown,
        capacity=reader.parameters.capacity,
        fpp=reader.parameters.fpp,
        keys=keys,
        current_fpp=weighted / keys if keys else 0.0,
        expected_loss=sum(expected_loss(one.layers) for one in states),
        grown_partitions=sum(len(one.layers) > 1 for one in states),
    )


class CrawlReader:
    """Reads a crawl on Redis as often as needed, and its history."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._view: View | None = None
        self._history: list[Point] = []
        """Points of the workers."""
        self._own: list[Point] = []
        """Points of this reader, those of the last minutes."""

    @cached_property
    def _reader(self) -> FrontierReader:
        return FrontierReader.open(self._url)

    @cached_property
    def _failures(self) -> FailuresOnRedis:
        return FailuresOnRedis(self._reader)

    def close(self) -> None:
        """Close the connection."""
        if "_reader" in vars(self):
            self._reader.close()

    def read(self) -> View:
        """Read the crawl.

        If Redis does not answer, but has answered before, the last view comes again
        with the ``trouble``. Raises the other errors of :func:`overview`.
        """
        try:
            job, failed = overview(self._reader, self._failures)
        except StoreUnreachableError as error:
            if self._view is None:
                raise
            self._view = replace(self._view, trouble=str(error))
            return self._view
        runs = self._look(job)
        self._view = View(
            place=self._reader.shown,
            identity=self._reader.identity,
            capacity=self._reader.parameters.capacity,
            read_at=time.time(),
            job=job,
            points=self._points(job),
            failed=failed,
            runs=runs,
        )
        return self._view

    def describe(self) -> Description:
        """Describe the crawl as it was read last, or the filter that the URL names."""
        kind = kind_at(self._url)
        if kind == "nothing":
            raise StoreError(
                f"{Address.of(self._url).shown}: there is neither a crawl nor a filter"
                " of this name"
            )
        if kind != "crawl":
            with BloomFilter.open(self._url, readonly=True) as seen:
                return Description(seen.info(), seen.identity, None)
        view = self._view or self.read()
        return Description(_filter(self._reader), self._reader.identity, view)

    def requests(self, selection: Selection) -> Iterator[ListedRequest | ListedItems]:
        """Yield its requests, partition by partition."""
        found = RequestsOnRedis(self._url, selection)
        task = f"Reading {self._reader.shown}"
        return told(found, task, found.count(), "requests")

    def failed_requests(self) -> FailedRequests:
        """Return those that were not retried since, latest first."""
        return self._failures.read(self._reader.states())

    def _look(self, job: Overview) -> list[Ran]:
        """Read the history, and add a point of this reader; return the runs."""
        last = self._history[-1].time if self._history else 0.0
        now, looks, found = self._reader.history(last)
        self._history += map(unpacked, looks)
        runs = [Ran(*run) for run in found]
        number = runs[-1].number if runs else 1
        seconds = self._seconds_at(now, number)
        self._own = [point for point in self._own if now - point.time <= RECENT]
        seen = sum(one.keys for one in self._reader.states())
        self._own.append(_point(job, seen, now, number, seconds))
        return runs

    def _seconds_at(self, now: float, run: int) -> float:
        """Return for how many seconds the crawl was running, as far as it is known."""
        known = sorted([*self._history[-1:], *self._own[-1:]], key=lambda one: one.time)
        if not known:
            return 0.0
        last = known[-1]
        return last.seconds + (max(0.0, now - last.time) if last.run == run else 0.0)

    def _points(self, job: Overview) -> list[Point]:
        """Return the history, to the present while workers are there."""
        if self._history and not job.state.has_crawl:
            return self._history
        return sorted([*self._history, *self._own], key=lambda point: point.time)


def _point(job: Overview, seen: int, now: float, run: int, seconds: float) -> Point:
    """Return a point of a history; values that Redis does not know are 0."""
    workers = job.workers
    assert workers is not None  # noqa: S101 - every crawl on Redis has them
    nothing: dict[str, Any] = dict.fromkeys(Point._fields, 0)
    known = {
        "time": now,
        "run": run,
        "seconds": seconds,
        "pages": job.pages,
        "bytes": job.totals.bytes,
        "items": job.totals.items,
        "duplicates": job.totals.duplicates,
        "seen": seen,
        "pending": job.pending - job.later,
        "later": job.later,
        "leased": workers.leased,
        "failed": sum(job.failed.values()),
        "slots": len(job.slots),
        "statuses": job.totals.statuses_by_hundred,
        "memory": workers.memory_bytes,
    }
    return Point(**{**nothing, **known})
