"""View: all data about a job that can be shown, as of its last checkpoint."""

from __future__ import annotations

import heapq
from itertools import chain
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.crawl.progress.history import Totals, read_history, together
from bloomdupe.crawl.progress.pace import (
    MINUTE,
    clock,
    duration,
    per_minute,
    recent,
    since,
    time_to_go,
    when,
)
from bloomdupe.crawl.progress.rounds import FINISHED as ENDED
from bloomdupe.crawl.progress.rounds import IMPORTED, OPEN, VERSIONS
from bloomdupe.filter.contents import stored_record
from bloomdupe.frontier.slot_queue import BEFORE_ALL
from bloomdupe.frontier.slot_state import SlotState, backoff_of
from bloomdupe.jobs.listed import FailedRequests
from bloomdupe.store.files import SILENT_AFTER
from bloomdupe.store.format import DELAYED, QUEUE, due_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bloomdupe.crawl.progress.history import Point
    from bloomdupe.crawl.state.rules import Rules
    from bloomdupe.filter.contents import FilterInfo
    from bloomdupe.store.snapshot import Snapshot

LARGEST = 10
"""Number of slots to name, those with the most requests."""
MOST_SLOTS = 100
"""Slots with details, those with the most requests."""


class View:
    """A job, and its recent points, in one snapshot of each of its stores.

    Times are in Unix seconds. Making it takes a second for a million slots, however
    many requests are pending in them.
    """

    def __init__(
        self,
        place: str,
        identity: dict[str, Any],
        filter_: FilterInfo,
        snapshots: list[Snapshot],
        life: Life,
        rules: Rules,
    ) -> None:
        now, first = time(), snapshots[0]
        crawls = [snapshot.record("crawl") or {} for snapshot in snapshots]
        frontiers = [snapshot.record("frontier") or {} for snapshot in snapshots]
        slots = [*chain.from_iterable(snapshot.slots() for snapshot in snapshots)]
        self.delayed = sum(one.requests for one in slots if one.number == DELAYED)
        """Pending requests that are delayed."""
        slots = [one for one in slots if one.number != DELAYED]
        states = {slot.name: SlotState.read(slot.state) for slot in slots if slot.state}
        self.place = place
        """The directory of the store, or the URL without the password."""
        self.identity = identity
        self.filter = filter_
        self.life = life
        self.notes: dict[str, Any] = stored_record(first)["notes"]
        """The notes of the crawl: how the last run ended, the round, and so on."""
        self.rules = rules
        """The rules that the user has given."""
        self.transaction = first.transaction
        """Number of the commit that wrote it."""
        self.pending = sum(one.entries(QUEUE) for one in snapshots)
        """Pending requests; those in flight included."""
        self.taken_in: int = sum(one.get("sequence", 0) for one in frontiers)
        """Requests ever added."""
        self.totals = Totals.together(Totals(**one.get("totals", {})) for one in crawls)
        """Counts of the requests that are done, over all runs."""
        self.slots = {slot.name: slot.requests for slot in slots}
        """Slots with pending requests, and their numbers of requests."""
        backoffs = {name: backoff_of(state, now) for name, state in states.items()}
        self.backing_off = {name: one for name, one in backoffs.items() if one}
        """Those of them that back off."""
        self.delays = {name: one.delay for name, one in states.items() if one.delay}
        """Seconds between two requests, of the slots that have a delay."""
        self.outputs = [
            {"uri": feed["uri"], "items": feed["items"], "bytes": feed["size"]}
            for feed in crawls[0].get("feeds", {}).values()
        ]
        """The output files: ``uri``, committed ``items`` (of a feed in batches, those
        of the present file), and ``bytes`` (None: it is complete, or not begun)."""
        left = sum(one.get("failures_left", 0) for one in crawls)
        self.failed = FailedRequests.of(snapshots, left=left)
        points, *others = map(read_history, snapshots)
        self.points = together(points, others)
        """Points of the history; on Redis, those of the leader, with the pages of all
        workers."""
        delayed = chain.from_iterable(
            one.next_requests(DELAYED, BEFORE_ALL, (), 1)[0] for one in snapshots
        )
        self.state = state_of(
            life,
            self.notes,
            ready=self.pending > self.delayed,
            due=min((due_of(rank) for rank, _ in delayed), default=None),
            now=now,
        )

    @property
    def round(self) -> int:
        """The number of the round, from 1."""
        return int(self.notes.get("generation", 1))

    @property
    def pages(self) -> int:
        """Responses to requests that are done."""
        return self.totals.pages

    @property
    def unavailable(self) -> set[str]:
        """Slots with pending requests that get none now: backing off, or paused."""
        return self.slots.keys() & {*self.backing_off, *self.rules.paused}

    @property
    def all_unavailable(self) -> bool:
        """Whether requests are pending, and all their slots back off."""
        return 0 < len(self.unavailable) == len(self.slots)

    @property
    def endings(self) -> dict[int, str]:
        """How each run has ended, by its number; of a run that goes on, its state."""
        endings = {one.run: KILLED for one in self.points}
        if self.last is not None and self.state.has_crawl:
            endings[self.last.run] = self.state.name
        return endings | {one.run: one.how for one in self.points if one.how}

    def slowness(self, slot: str) -> str:
        """Return why a slot is slow, if that is known: its backoff, or its delay."""
        if slot in self.rules.paused:
            return "paused"
        backoff, delay = self.backing_off.get(slot), self.delays.get(slot)
        if backoff is not None:
            end = clock(backoff.until, self.state.read_at)
            return f"backs off until {end} ({backoff.reason})"
        return "" if delay is None else f"a request every {delay:.3g} s"

    @property
    def largest(self) -> dict[str, int]:
        """The slots with the most pending requests, and their numbers."""
        names = first_of(self.slots, LARGEST, self.slots)
        return {name: self.slots[name] for name in names}

    @property
    def spider(self) -> str:
        """The name of the spider, or the place of the job."""
        return str(self.identity.get("spider", self.place))

    @property
    def last(self) -> Point | None:
        """The last point of the history; None in a job that has not run."""
        return self.points[-1] if self.points else None

    @property
    def present(self) -> list[Point]:
        """The points, and one for now, or for the last checkpoint, with its pages.

        Without a heartbeat, or after a kill, it is the last checkpoint. While nothing
        changes, such as during a backoff, no checkpoint is written, and so there are no
        new points. All other figures are those of the last point.
        """
        last, state = self.last, self.state
        if last is None or not (state.has_crawl or state.name == KILLED):
            return self.points
        since = state.read_at - last.time
        if state.name in (SILENT, KILLED):
            since = self.totals.seconds - last.seconds
        if since <= 0:
            return self.points
        now = last._replace(
            time=last.time + since, seconds=last.seconds + since, pages=self.pages
        )
        return [*self.points, now]

    @property
    def seconds(self) -> float:
        """Seconds that the crawl was running, over all runs."""
        points = self.present
        return points[-1].seconds if points else self.totals.seconds

    @property
    def rate(self) -> float | None:
        """Pages a minute, during the last minute of the last run."""
        points = self.present
        if not points:
            return None
        found = per_minute(since(points, MINUTE), points[-1])
        return None if found is None else max(0.0, found)

    @property
    def to_go(self) -> float | None:
        """Estimated seconds until no request is pending; None: unknown.

        It takes until the end of the last backoff, at least.
        """
        points, state = self.present, self.state
        if not (state.has_crawl and points) or state.name == WAITING:
            return None
        if not self.slots.keys().isdisjoint(self.rules.paused):
            return None  # until they are resumed
        left = time_to_go(recent(points), points[-1])
        if left is None:
            return None
        now = state.read_at
        return max([left, *(one.until - now for one in self.backing_off.values())])

    def as_dict(self) -> dict[str, Any]:
        """Return the figures of the job as plain types, for JSON."""
        names = (
            "pending", "delayed", "taken_in", "pages", "round", "transaction",
            "largest", "outputs",
        )  # fmt: skip
        return {
            "state": self.state.name,
            "state_time": self.state.moment,
            **{name: getattr(self, name) for name in names},
            **self.rules.values,
            "versions": self.notes.get(VERSIONS, {}),
            "processes": sorted(self.life.names),
            "checkpoint_at": self.life.written_at,
            "last_run": self.notes.get("run"),
            "finished_at": self.notes.get("finished"),
            "items": self.totals.items,
            "totals": vars(self.totals),
            "slots": len(self.slots),
            "delays": {s: self.delays[s] for s in self.largest if s in self.delays},
            "backing_off": {
                slot: one._asdict() for slot, one in self.backing_off.items()
            },
            "failed": dict(self.failed.reasons.most_common()),
            "failures_left": self.failed.left,
            "pages_per_minute": self.rate,
            "seconds_to_go": self.to_go,
            "last_point": None if self.last is None else self.last._asdict(),
            **(self.life.workers or {}),
        }


def first_of(names: Iterable[str], most: int, *counts: Mapping[str, int]) -> list[str]:
    """Return the slots with the highest counts, or with the first names."""
    return heapq.nsmallest(
        most, names, key=lambda name: (*(-one.get(name, 0) for one in counts), name)
    )


def slot_name(name: str) -> str:
    """Return a slot's name; items of ``start()`` have no slot."""
    return name or "(no slot)"


NOT_BEGUN, RUNNING, SLEEPING = "not begun", "running", "sleeping"
WAITING = "waiting for URLs"
SILENT = "no heartbeat"
STOPPED, KILLED, FINISHED = "stopped", "killed", "finished"
IN_USE = "in use"
"""By a command, or by a crawl that is still being opened."""


class Life(NamedTuple):
    """Who has a job."""

    owner: str | None = None
    """The process or the workers: a lock or a lease proves it; None: nobody."""
    heartbeat: float | None = None
    """Unix time of the last heartbeat; None: no crawl runs."""
    names: frozenset[str] = frozenset()
    """A name for each process or worker."""
    written_at: float = 0.0
    """Unix time of the last checkpoint; 0: there was none."""
    workers: dict[str, int | None] | None = None
    """Figures that only a job on Redis has: ``workers`` that have a partition,
    ``partitions``, ``unowned_partitions``, ``output_entries`` that were not collected
    and deleted, ``memory_bytes`` of all data in this Redis, and their
    ``memory_limit``."""

    def silence(self, now: float) -> float | None:
        """Seconds without a heartbeat; None if they are no cause for concern."""
        seconds = 0.0 if self.heartbeat is None else now - self.heartbeat
        return seconds if seconds > SILENT_AFTER else None

    @property
    def is_held(self) -> bool:
        """Whether no verb may take it: silent workers have lost their leases."""
        lost = self.workers is not None and self.silence(time()) is not None
        return self.owner is not None and not lost


class State(NamedTuple):
    """The state of a job at a moment."""

    name: str
    read_at: float
    """Unix time of this state."""
    text: str
    """The state in words."""
    moment: float | None = None
    """Unix time until which it sleeps, of its last heartbeat, or of its end."""

    @property
    def has_crawl(self) -> bool:
        """Whether a crawl has the job, be it alive or hanging."""
        return self.name in (RUNNING, SLEEPING, WAITING, SILENT)


def state_of(
    life: Life,
    notes: Mapping[str, Any],
    *,
    ready: bool,
    due: float | None,
    now: float,
) -> State:
    """Decide the state of a job at Unix time ``now``.

    The ``notes`` are those of the crawl. Requests are ``ready`` that are in flight,
    or not delayed; the next one that is delayed is ``due`` at a time.
    """
    owner = life.owner
    if owner is None:
        ended = notes.get("run")
        if ended in (None, IMPORTED):
            return State(NOT_BEGUN, now, NOT_BEGUN)
        if ended == OPEN:
            return State(KILLED, now, KILLED)
        if ended != ENDED:
            return State(STOPPED, now, f"{STOPPED}: {ended}")
        at = notes.get("finished")
        text = FINISHED if at is None else f"{FINISHED} at {when(at)}"
        text += ", and has requests again" * (ready or due is not None)
        return State(FINISHED, now, text, at)
    if life.heartbeat is None:
        return State(IN_USE, now, f"{IN_USE} by {owner}")
    name, said, moment = RUNNING, "", None
    if (silence := life.silence(now)) is not None:
        name, said, moment = SILENT, f" for {duration(silence)}", life.heartbeat
    elif not ready and due is not None and due > now:
        name, moment = SLEEPING, due
        said = f" until {clock(due, now)}, {duration(due - now)} to go"
    elif notes.get("stays") and not ready and due is None:
        name = WAITING
    return State(name, now, f"{name}{said} ({owner})", moment)
