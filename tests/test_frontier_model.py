"""The frontier against a model in plain Python, with crashes as one of its rules."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

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

from bloomdupe import BloomFilter, batch, frontier, line, storage
from bloomdupe.errors import StoreError
from bloomdupe.frontier import Frontier

if TYPE_CHECKING:
    from bloomdupe.line import Entry

MEMORY = Path("/dev/shm")  # noqa: S108 - a directory of our own in it
"""Where syncing takes no time; there is no power cut here."""

SLOTS = st.sampled_from("abcde")
PRIORITIES = st.integers(-2, 2) | st.sampled_from([-(10**9), -57, 56, 10**30])


def no_room(store: storage.Store) -> None:
    raise StoreError(f"{store.path}: there is no room")


class FrontierMachine(RuleBasedStateMachine):
    """Drives a frontier, with every limit so small that it is crossed.

    The model: every request ever offered by its number, and in which state it is,
    now and as of the last checkpoint.
    """

    durable = True
    memory = MEMORY if MEMORY.exists() else None

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(dir=self.memory))
        self.path = self.directory / "store"
        self.number = 0
        # Of each request that is pending: (slot, what it is sorted by).
        self.pending: dict[int, tuple[str, tuple[int, bool, int]]] = {}
        self.leased: dict[int, tuple[Entry, tuple[str, tuple[int, bool, int]]]] = {}
        self.seen: set[int] = set()
        self.committed: tuple[dict[int, tuple[str, tuple[int, bool, int]]], set[int]]
        self.committed = ({}, set())

    @initialize(fifo=st.booleans(), start_fifo=st.booleans())
    def create(self, fifo: bool, start_fifo: bool) -> None:
        self.fifo, self.start_fifo = fifo, start_fifo
        self.open()

    def open(self) -> None:
        if self.durable:
            self.filter = BloomFilter.open(self.path, 1000, 1e-6, confirm=1)
        else:
            self.filter = BloomFilter(1000, 1e-6, confirm=1)
        self.owed = Frontier(self.filter, fifo=self.fifo, start_fifo=self.start_fifo)

    def teardown(self) -> None:
        if hasattr(self, "filter"):
            self.filter.close()
        shutil.rmtree(self.directory)

    @rule(slot=SLOTS, priority=PRIORITIES, start=st.booleans(), many=st.integers(1, 9))
    def offer_new(self, slot: str, priority: int, start: bool, many: int) -> None:
        for _ in range(many):
            number = self.number
            self.number += 1
            name = str(number).encode()
            assert self.owed.offer(name, slot, priority, name, start=start)
            fifo = self.start_fifo if start else self.fifo
            order = number if fifo else -number
            self.pending[number] = (slot, (-priority, start, order))
            self.seen.add(number)

    @precondition(lambda self: self.seen)
    @rule(data=st.data())
    def offer_seen(self, data: st.DataObject) -> None:
        name = str(data.draw(st.sampled_from(sorted(self.seen)))).encode()
        assert not self.owed.offer(name, "a", 0, name)

    @rule(many=st.integers(1, 9))
    def lease(self, many: int) -> None:
        for _ in range(many):
            entry = self.owed.lease()
            if entry is None:
                assert not self.pending
                return
            assert entry.payload is not None
            number = int(entry.payload)
            slot, order = self.pending.pop(number)
            assert slot == entry.line.name
            first = min(
                (other for name, other in self.pending.values() if name == slot),
                default=order,
            )
            assert order <= first, "another one of the slot was due"
            self.leased[number] = (entry, (slot, order))

    @precondition(lambda self: self.leased)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        for number in data.draw(st.sets(st.sampled_from(sorted(self.leased)))):
            self.owed.settle(self.leased.pop(number)[0])

    @rule()
    def checkpoint(self) -> None:
        self.owed.checkpoint()
        owed = dict(self.pending)
        owed.update({number: place for number, (_, place) in self.leased.items()})
        self.committed = (owed, set(self.seen))
        self.owed.verify()

    @precondition(lambda self: self.durable)
    @rule()
    def fill_the_map(self) -> None:
        """The next checkpoint must make it larger."""
        store = self.owed.store
        assert store is not None
        store._end_reader()  # as every commit does
        # As small as it can be: LMDB does not cut off what is in use.
        store._env.set_mapsize(4096)

    @precondition(lambda self: self.durable)
    @rule()
    def checkpoint_without_room(self) -> None:
        """It fails, or needs no room; everything is there for the next one."""
        self.fill_the_map()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(storage.Store, "_grow_map", no_room)
            with contextlib.suppress(StoreError):
                self.checkpoint()

    @precondition(lambda self: self.durable)
    @rule()
    def crash(self) -> None:
        self.filter.close()  # writes nothing: the frontier makes the checkpoints
        self.open()
        self.leased.clear()
        pending, seen = self.committed
        self.pending, self.seen = dict(pending), set(seen)
        self.owed.verify()

    @invariant()
    def counts_agree(self) -> None:
        if hasattr(self, "owed"):
            assert self.owed.pending == len(self.pending)
            assert self.owed.leased == len(self.leased)
            lines = self.owed._lines.values()
            assert self.owed._loaded == sum(len(line.heap or ()) for line in lines)

    @invariant()
    def what_is_seen_is_known(self) -> None:
        if hasattr(self, "owed"):
            for number in range(self.number):
                assert (str(number).encode() in self.filter) == (number in self.seen)


class MemoryMachine(FrontierMachine):
    """The same without a store."""

    durable = False


LIMITS = (
    (line, "MIN_BATCH", 1),
    (line, "MAX_BATCH", 3),
    (frontier, "MAX_LOADED", 2),
    (frontier, "MAX_HEAD", 1),
    (batch, "MANY", 1),
    (batch, "LMDB_PAGE_BYTES", 50),
    (storage, "MAP_BYTES", 1 << 17),
)


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in LIMITS:
        monkeypatch.setattr(module, name, value)


OPTIONS = settings(
    max_examples=60,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("machine", [FrontierMachine, MemoryMachine])
def test_the_frontier_is_as_the_model(machine: type[FrontierMachine]) -> None:
    case = machine.TestCase
    case.settings = OPTIONS
    case("runTest").debug()
