"""The filter compared with a Python set, through any sequence of operations."""

from __future__ import annotations

import shutil
import tempfile
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
from support.agreement import disagreements
from support.repetition import slow_tests_run

from bloomdupe import BloomFilter
from bloomdupe.filter import contents, layer
from bloomdupe.store.lmdb import environment
from bloomdupe.store.store import Part

if TYPE_CHECKING:
    from bloomdupe.store.store import Store

KEY = bytes(16)
NUMBERS = st.lists(st.integers(0, 4000), max_size=300)
RUNS = st.builds(
    lambda first, count: list(range(first, first + count)),
    st.integers(0, 3950),
    st.integers(0, 50),
)
"""Many at once; a list that is drawn item by item seldom has so many."""
MEMORY = st.sampled_from([0, 10_000, 100_000, None])
"""Bytes that the blocks may take in memory: those of no layer, some layers or all."""
ENDS = st.sampled_from(["done", "done", "dropped", "never noted"])


class Machine(RuleBasedStateMachine):
    """Drives a filter in a store, with every limit so small that it is crossed."""

    shared = False

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.path = self.directory / "seen"
        self.added: set[int] = set()

    @initialize(
        capacity=st.sampled_from([50, 900, 30_000]),
        fpp=st.sampled_from([0.3, 1e-2, 1e-6]),
        exact=st.booleans(),
        memory=MEMORY,
    )
    def create(
        self, capacity: int, fpp: float, exact: bool, memory: int | None
    ) -> None:
        self.exact = exact
        self.memory = memory
        self.parameters = (capacity, fpp, exact)
        self.seen = BloomFilter.open(
            self.path, capacity, fpp, exact=exact, key=KEY, memory=memory
        )
        if self.shared:
            self.seen.share_store()

    def teardown(self) -> None:
        self.seen.close()
        shutil.rmtree(self.directory)


class FilterMachine(Machine):
    """Drives a filter that makes its checkpoints itself."""

    def __init__(self) -> None:
        super().__init__()
        self.copies = 0
        self.durable: set[int] = set()

    @rule(numbers=NUMBERS)
    def add(self, numbers: list[int]) -> None:
        for number in numbers:
            new = self.seen.add(str(number))
            if number in self.added:
                assert not new, "a seen key was called new"
            elif self.exact:
                assert new, "an exact filter called a new key seen"
            self.added.add(number)

    @rule(numbers=NUMBERS)
    def ask(self, numbers: list[int]) -> None:
        for number in numbers:
            known = str(number) in self.seen
            assert known or number not in self.added
            if self.exact:
                assert known == (number in self.added)

    @rule()
    def checkpoint(self) -> None:
        self.seen.checkpoint()
        self.durable = set(self.added)

    @rule(memory=MEMORY)
    def reopen(self, memory: int | None) -> None:
        self.seen.close()
        self.seen = BloomFilter.open(self.path, memory=memory)
        self.durable = set(self.added)

    @rule(memory=MEMORY)
    def crash(self, memory: int | None) -> None:
        """Forget everything since the last checkpoint, as a killed process does."""
        store = self.seen.store
        assert store is not None
        store.close()
        self.seen = BloomFilter.open(self.path, memory=memory)
        # A checkpoint may have happened by itself since: look which keys survived.
        survivors = {n for n in self.added if str(n) in self.seen}
        assert self.durable <= survivors
        self.added = survivors
        self.durable = set(survivors)

    @rule()
    def fold(self) -> None:
        self.seen.fold()
        self.durable = set(self.added)

    @rule(numbers=NUMBERS)
    def union(self, numbers: list[int]) -> None:
        capacity, fpp, exact = self.parameters
        other = BloomFilter(capacity, fpp, exact=exact, key=KEY)
        other.update(map(str, numbers))
        self.seen |= other
        self.added |= set(numbers)
        self.durable = set(self.added)

    @rule()
    def backup(self) -> None:
        self.copies += 1
        target = self.directory / f"copy{self.copies}"
        self.seen.backup(target)
        self.durable = set(self.added)
        with BloomFilter.open(target) as copy:
            assert copy == self.seen
            assert not any(copy.add(str(number)) for number in self.added)

    @precondition(lambda self: len(self.added) > 1500)
    @rule()
    def clear(self) -> None:
        self.seen.clear()
        self.added = set()
        self.durable = set()

    @invariant()
    def count(self) -> None:
        if self.exact and hasattr(self, "seen"):
            assert abs(len(self.seen) - len(self.added)) <= 0.02 * len(self.added) + 2


class SharedFilterMachine(Machine):
    """Drives a filter, and prepares, commits and notes its checkpoints from outside.

    Keys that are added in between belong to the next checkpoint. After a crash the
    store holds exactly the keys that were there when the last committed checkpoint
    was prepared.
    """

    shared = True

    def __init__(self) -> None:
        super().__init__()
        self.notes: dict[str, Any] = {}
        self.committed: tuple[set[int], dict[str, Any]] = (set(), {})
        self.change: Part | None = None

    def store(self) -> Store:
        assert self.seen.store is not None
        return self.seen.store

    def state(self) -> tuple[set[int], dict[str, Any]]:
        return set(self.added), {
            name: list(value) for name, value in self.notes.items()
        }

    @rule(numbers=RUNS)
    def add(self, numbers: list[int]) -> None:
        for number in numbers:
            new = self.seen.add(str(number))
            assert not (new and number in self.added)
            if new:  # else, in a filter that is not exact, it need not come back
                self.added.add(number)
            else:
                assert number in self.added or not self.exact

    @rule(number=st.integers(0, 9))
    def note(self, number: int) -> None:
        for notes in (self.notes, self.seen.notes):
            notes.setdefault("numbers", []).append(number)

    @rule()
    def checkpoint(self) -> None:
        self.seen.checkpoint()
        self.committed = self.state()

    @rule()
    def fold(self) -> None:
        self.checkpoint()
        self.seen.fold()

    @rule(first=RUNS, second=RUNS, note=st.none() | st.integers(0, 9), end=ENDS)
    def checkpoint_in_steps(
        self, first: list[int], second: list[int], note: int | None, end: str
    ) -> None:
        """It is prepared, committed and noted while the crawl goes on."""
        self.change = self.seen.prepare()
        held = self.state()
        self.add(first)
        if note is not None:
            self.note(note)
        if end == "dropped":
            return
        self.store().commit(replace(self.change, done=lambda: None))
        self.committed = held
        self.add(second)
        if end == "never noted":
            self.crash()
            return
        self.change.done()
        self.change = None
        assert disagreements(self.path / "data.mdb") == []

    @rule()
    def crash(self) -> None:
        self.seen.close()  # writes nothing: it is shared
        self.seen = BloomFilter.open(self.path, memory=self.memory)
        self.seen.share_store()
        self.change = None
        keys, notes = self.committed
        self.added = set(keys)
        self.notes = {name: list(value) for name, value in notes.items()}
        assert disagreements(self.path / "data.mdb") == []
        assert len(self.seen) == len(keys)
        assert all(str(number) in self.seen for number in keys)
        assert self.seen.notes == notes
        if self.exact:
            assert not any(str(n) in self.seen for n in range(4001) if n not in keys)
        if self.seen.layer_count == 1:
            capacity, fpp, exact = self.parameters
            same = BloomFilter(capacity, fpp, exact=exact, key=KEY)
            same.update(map(str, keys))
            assert self.seen == same

    @invariant()
    def it_is_as_the_model(self) -> None:
        if hasattr(self, "seen"):
            assert len(self.seen) == len(self.added)
            assert all(str(number) in self.seen for number in self.added)
            assert self.seen.notes == self.notes
            assert self.seen.changed == (self.state() != self.committed)


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MAX_PENDING", 40)
    monkeypatch.setattr(layer, "MIN_BACKLOG", 10)
    monkeypatch.setattr(layer, "MAX_BACKLOG", 20)
    monkeypatch.setattr(contents, "MIN_SWEEP", 1)
    monkeypatch.setattr(contents, "MAX_SWEEP", 2)
    monkeypatch.setattr(environment, "MAP_BYTES", 1 << 16)


@pytest.mark.parametrize("machine", [FilterMachine, SharedFilterMachine])
def test_the_filter_behaves_as_a_set(machine: type[RuleBasedStateMachine]) -> None:
    machine.TestCase.settings = settings(
        max_examples=settings().max_examples * 3 // 5,
        stateful_step_count=30 if slow_tests_run() else 15,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    machine.TestCase("runTest").runTest()
