"""Frontier and filter against a model in plain Python; a crash is a rule, too."""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from bloomdupe import BloomFilter
from bloomdupe.errors import StoreError
from bloomdupe.filter import contents, layer
from bloomdupe.frontier import partition, slot_queue
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.frontier.pending_requests import pending_requests
from bloomdupe.frontier.slot_queue import QueueOrder
from bloomdupe.store.lmdb import environment
from bloomdupe.store.lmdb.lmdb_store import LmdbStore
from bloomdupe.store.store import Part
from support.agreement import disagreements

if TYPE_CHECKING:
    from bloomdupe.frontier.slot_queue import Entry

Place = tuple[str, tuple[int, bool, int]]
"""Slot, and the sort key of a request in it."""
State = tuple[dict[int, Place], set[int], list[int]]
"""Pending requests, seen keys, and notes."""

SLOTS = st.sampled_from("abcde")
WAITS = st.integers(-5, 60)
"""Seconds."""
ROOM = st.sampled_from([0, 10_000, None])
"""Bytes that the blocks of the filter may take in memory."""
PRIORITIES = st.integers(-2, 2) | st.sampled_from(
    [-(10**30), 2 - 2**31, -(10**9), -57, 56, 2**31 - 2, 10**30]
)
"""Also the last ones that are told apart, and some beyond."""
REQUESTS = st.lists(st.tuples(PRIORITIES, st.booleans()), min_size=1, max_size=9)
"""For one slot: the priority of each, and whether it is a start request."""


def no_room(store: LmdbStore) -> None:
    raise StoreError(f"{store.path}: there is no room")


class FrontierMachine(RuleBasedStateMachine):
    """Drives a frontier, with every limit so small that it is crossed.

    The model: every request ever enqueued by its number, and in which state it is,
    now and as of the last checkpoint. A checkpoint is made in one go; or prepared,
    committed and noted, or dropped, with everything else happening in between.
    """

    durable = True

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.path = self.directory / "store"
        self.number = 0
        self.pending: dict[int, Place] = {}
        self.delayed: dict[int, Place] = {}
        """Pushed for a point in time, whether it has come or not."""
        self.postponed: set[int] = set()
        """Numbers of all that ever were."""
        self.now = self.latest = 1_000_000
        """Unix time, and the latest so far: a request that was due may be ready."""
        self.unacked: dict[int, tuple[Entry, Place]] = {}
        self.seen: set[int] = set()
        self.notes: list[int] = []
        self.committed: State = ({}, set(), [])
        self.change: Part | None = None
        """Prepared, and not noted as durable."""
        self.held = self.committed
        """What that holds."""
        self.unnoticed = False
        """Whether it is durable."""

    @initialize(
        fifo=st.booleans(),
        start_fifo=st.booleans(),
        capacity=st.sampled_from([20, 1000, 5000]),
        exact=st.booleans(),
        room=ROOM,
    )
    def create(
        self, fifo: bool, start_fifo: bool, capacity: int, exact: bool, room: int | None
    ) -> None:
        self.fifo, self.start_fifo = fifo, start_fifo
        # No key is taken for another one.
        self.parameters: dict[str, Any] = {
            "capacity": capacity,
            "fpp": 1e-12,
            "exact": exact,
            "key": bytes(16),
        }
        self.open(room)

    def open(self, room: int | None) -> None:
        if self.durable:
            self.filter = BloomFilter.open(self.path, memory=room, **self.parameters)
        else:
            self.filter = BloomFilter(**self.parameters)
        self.frontier = Frontier(
            self.filter,
            order=QueueOrder(self.fifo, self.start_fifo),
            wall=lambda: self.now,
        )

    def teardown(self) -> None:
        if hasattr(self, "filter"):
            self.filter.close()
        shutil.rmtree(self.directory)

    @rule(slot=SLOTS, requests=REQUESTS)
    def enqueue_new(self, slot: str, requests: list[tuple[int, bool]]) -> None:
        for priority, start in requests:
            number = self.number
            self.number += 1
            name = str(number).encode()
            assert self.filter.add(name)
            self.frontier.push(slot, priority, name, start=start)
            fifo = self.start_fifo if start else self.fifo
            order = number if fifo else -number
            self.pending[number] = (slot, (-priority, start, order))
            self.seen.add(number)

    @rule(slot=SLOTS, priority=PRIORITIES, wait=WAITS, many=st.integers(1, 9))
    def enqueue_delayed(self, slot: str, priority: int, wait: int, many: int) -> None:
        for step in range(many):
            number = self.number
            self.number += 1
            name = str(number).encode()
            self.filter.add(name)
            due = self.now + wait + step
            self.frontier.push(slot, priority, name, not_before=due)
            self.postponed.add(number)
            self.delayed[number] = (slot, (due, False, number))
            self.seen.add(number)

    @rule(number=st.integers(0, 9))
    def note(self, number: int) -> None:
        self.notes.append(number)
        self.filter.notes.setdefault("numbers", []).append(number)

    @rule(seconds=st.integers(-50, 100))
    def set_the_clock(self, seconds: int) -> None:
        self.now += seconds
        self.latest = max(self.now, self.latest)

    @precondition(lambda self: self.seen)
    @rule(data=st.data())
    def enqueue_seen(self, data: st.DataObject) -> None:
        name = str(data.draw(st.sampled_from(sorted(self.seen)))).encode()
        assert not self.filter.add(name)

    @rule(many=st.integers(1, 9))
    def pop(self, many: int) -> None:
        for _ in range(many):
            entry = self.frontier.pop()
            if entry is None:
                assert not self.pending
                times = [due for _, (due, *_) in self.delayed.values()]
                assert not any(due <= self.now for due in times)
                sleep = min(times) - self.now if times else None
                assert self.frontier.seconds_until_ready() == sleep
                return
            assert entry.payload is not None
            number = int(entry.payload)
            if number in self.delayed:
                slot, order = self.delayed.pop(number)
                assert slot == entry.queue.name
                assert order[0] <= self.latest, "it was early"
                self.unacked[number] = (entry, (slot, order))
                continue
            slot, order = self.pending.pop(number)
            assert slot == entry.queue.name
            first = min(
                (other for name, other in self.pending.values() if name == slot),
                default=order,
            )
            assert order <= first, "an earlier request of the slot was due"
            busy = Counter(name for _, (name, _) in self.unacked.values())
            others = [busy[name] for name, _ in self.pending.values()]
            assert busy[slot] <= min(others, default=busy[slot]), "others are less busy"
            self.unacked[number] = (entry, (slot, order))

    @precondition(lambda self: self.unacked)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        for number in data.draw(st.sets(st.sampled_from(sorted(self.unacked)))):
            self.frontier.ack(self.unacked.pop(number)[0])

    def state(self) -> State:
        expected = {**self.pending, **self.delayed}
        expected.update({number: place for number, (_, place) in self.unacked.items()})
        return expected, set(self.seen), [*self.notes]

    @precondition(lambda self: self.change is None)
    @rule()
    def checkpoint(self) -> None:
        self.frontier.checkpoint()
        self.committed = self.state()
        self.agree()

    @precondition(lambda self: self.durable and self.change is None)
    @rule()
    def prepare(self) -> None:
        self.change = self.frontier.partitions[0].prepare()
        self.held = self.state()

    @precondition(lambda self: self.change and not self.unnoticed)
    @rule(commits=st.sampled_from([True, True, True, False]))
    def commit_or_drop(self, commits: bool) -> None:
        assert self.change is not None
        if commits:
            self.store().commit(replace(self.change, done=lambda: None))
            self.committed, self.unnoticed = self.held, True
        else:
            self.change = None

    @precondition(lambda self: self.unnoticed)
    @rule()
    def become_durable(self) -> None:
        assert self.change is not None
        self.change.done()
        self.change, self.unnoticed = None, False
        self.agree()

    @precondition(lambda self: self.durable and self.change is None)
    @rule(slot=SLOTS, requests=REQUESTS)
    def checkpoint_with_news_between_its_steps(
        self, slot: str, requests: list[tuple[int, bool]]
    ) -> None:
        self.prepare()
        self.enqueue_new(slot, requests)
        self.commit_or_drop(True)
        self.enqueue_new(slot, requests)
        self.become_durable()

    def agree(self) -> None:
        if self.durable:
            assert disagreements(self.path / "data.mdb") == []

    def store(self) -> LmdbStore:
        assert isinstance(self.frontier.store, LmdbStore)
        return self.frontier.store

    @precondition(lambda self: self.durable)
    @rule()
    def fill_the_map(self) -> None:
        """The next checkpoint must make it larger."""
        store = self.store()
        store._end_reader()  # as every commit does
        # As small as it can be: LMDB does not cut off what is in use.
        store._env.set_mapsize(4096)

    @precondition(lambda self: self.durable and self.change is None)
    @rule()
    def checkpoint_without_room(self) -> None:
        """It fails, or needs no room; everything is there for the next one."""
        self.fill_the_map()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LmdbStore, "_grow_map", no_room)
            with contextlib.suppress(StoreError):
                self.checkpoint()

    @precondition(lambda self: self.durable)
    @rule(room=ROOM)
    def crash(self, room: int | None) -> None:
        self.filter.close()  # writes nothing: the frontier makes the checkpoints
        self.open(room)
        self.unacked.clear()
        self.change, self.unnoticed = None, False
        expected, seen, notes = self.committed
        self.seen, self.notes = set(seen), [*notes]
        self.agree()
        found = pending_requests(self.store())
        stored = [int(one.payload) for portion in found for one in portion]
        assert sorted(stored) == sorted(expected)
        self.delayed = {n: p for n, p in expected.items() if n in self.postponed}
        self.pending = {n: p for n, p in expected.items() if n not in self.postponed}
        assert len(self.filter) == len(seen)

    @precondition(lambda self: self.durable)
    @rule(rng=st.randoms(use_true_random=False))
    def remove_between_two_runs(self, rng: random.Random) -> None:
        """Remove some requests of the store, as it is found after a crash."""
        self.crash(0)
        for found in pending_requests(self.store()):
            gone = [one for one in found if rng.random() < 0.33]
            self.frontier.remove(gone)
            for number in (int(one.payload) for one in gone):
                del (self.delayed if number in self.delayed else self.pending)[number]
            self.checkpoint()
        left = len(self.pending) + len(self.delayed)
        assert sum(map(len, pending_requests(self.store()))) == left

    @invariant()
    def counts_agree(self) -> None:
        if hasattr(self, "frontier"):
            partition = self.frontier.partitions[0]
            waiting = self.frontier.pending + self.frontier.waiting
            assert waiting == len(self.pending) + len(self.delayed)
            assert self.frontier.unacked == len(self.unacked)
            queues = [*self.frontier.queues(), partition.delayed]
            loaded = [queue for queue in queues if queue.heap]
            assert partition.evictable.keys() >= {*loaded}
            sizes = [entry.size for queue in loaded for _, entry in queue.heap]
            assert partition.loaded == sum(sizes)

    @invariant()
    def it_knows_whether_there_is_anything_for_a_checkpoint(self) -> None:
        if hasattr(self, "frontier") and self.durable:
            partition = self.frontier.partitions[0]
            changed = self.state() != self.committed
            assert self.frontier.changed or not changed
            news = [*partition._fresh, *partition._writing]
            news += [*partition._acked, *partition._removing]
            moved = any(entry.queue is partition.delayed for entry in news)
            assert changed or moved or self.unnoticed or not self.frontier.changed

    @invariant()
    def seen_keys_are_known(self) -> None:
        if hasattr(self, "frontier"):
            for number in range(self.number):
                assert (str(number).encode() in self.filter) == (number in self.seen)
            assert len(self.filter) == len(self.seen)
            assert self.filter.notes.get("numbers", []) == self.notes


class MemoryMachine(FrontierMachine):
    """The same without a store."""

    durable = False


LIMITS = (
    (slot_queue, "MIN_BATCH", 1),
    (slot_queue, "MAX_BATCH", 3),
    (contents, "MAX_PENDING", 10),
    (layer, "MIN_BACKLOG", 10),
    (layer, "MAX_BACKLOG", 20),
    (contents, "MAX_SWEEP", 2),
    (partition, "MAX_FRESH", 10_000),
    (partition, "MAX_LOADED", 2_900),
    (environment, "MAP_BYTES", 1 << 17),
)


OPTIONS = settings(
    max_examples=settings().max_examples * 3 // 2,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
