"""The filter against a Python set, through any sequence of what can happen to it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

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

from bloomdupe import BloomFilter, bloom, layer, storage

KEY = bytes(16)
NUMBERS = st.lists(st.integers(0, 4000), max_size=300)


class FilterMachine(RuleBasedStateMachine):
    """Drives a filter in a store, with every limit so small that it is crossed."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.path = self.directory / "seen"
        self.copies = 0
        self.added: set[int] = set()
        self.durable: set[int] = set()
        self.exact = False

    @initialize(
        capacity=st.sampled_from([50, 900, 30_000]),
        fpp=st.sampled_from([0.3, 1e-2, 1e-6]),
        confirm=st.sampled_from([0, 0.1, 1]),
    )
    def create(self, capacity: int, fpp: float, confirm: float) -> None:
        self.exact = confirm == 1
        self.parameters = (capacity, fpp, confirm)
        self.seen = BloomFilter.open(self.path, capacity, fpp, confirm=confirm, key=KEY)

    def teardown(self) -> None:
        self.seen.close()
        shutil.rmtree(self.directory)

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

    @rule()
    def reopen(self) -> None:
        self.seen.close()
        self.seen = BloomFilter.open(self.path)
        self.durable = set(self.added)

    @rule()
    def crash(self) -> None:
        """Forget everything since the last checkpoint, as a killed process does."""
        store = self.seen._store
        assert store is not None
        store.close()
        self.seen = BloomFilter.open(self.path)
        # A checkpoint may have happened by itself since: ask what survived.
        survivors = {n for n in self.added if str(n) in self.seen}
        assert self.durable <= survivors
        self.added = survivors
        self.durable = set(survivors)

    @rule()
    def compact(self) -> None:
        self.seen.compact()
        self.durable = set(self.added)

    @rule(numbers=NUMBERS)
    def union(self, numbers: list[int]) -> None:
        capacity, fpp, confirm = self.parameters
        other = BloomFilter(capacity, fpp, confirm=confirm, key=KEY)
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


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bloom, "MAX_PENDING", 40)
    monkeypatch.setattr(layer, "MIN_BACKLOG", 100)
    monkeypatch.setattr(layer, "MIN_SWEEP", 1)
    monkeypatch.setattr(layer, "MAX_SWEEP", 2)
    monkeypatch.setattr(bloom, "MAX_SWEEP", 2)
    monkeypatch.setattr(storage, "MAP_BYTES", 1 << 16)


def test_the_filter_behaves_as_a_set() -> None:
    FilterMachine.TestCase.settings = settings(
        max_examples=60,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    FilterMachine.TestCase("runTest").runTest()
