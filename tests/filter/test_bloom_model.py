"""The filter compared with a Python set, through any sequence of operations."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

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

KEY = bytes(16)
MOST_PENDING = 40
NUMBERS = range(4_000)
RUNS = st.builds(
    lambda first, count: list(range(first, first + count)),
    st.integers(0, len(NUMBERS) - 200),
    st.integers(0, 200),
)
"""Many at once; a list that is drawn item by item seldom has so many."""
MEMORY = st.sampled_from([0, 10_000, 100_000, None])
"""Bytes that the blocks may take in memory: those of no layer, some layers or all."""


class FilterMachine(RuleBasedStateMachine):
    """Drives a filter in a store, with every limit so small that it is crossed.

    It makes its checkpoints itself, after so many keys and when it closes. That of a
    crawl, of which others make the checkpoints, is in ``support/frontier_model.py``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.path = self.directory / "seen"
        self.copies = 0
        self.added: set[int] = set()
        self.committed: set[int] = set()
        self.common = 0
        """Keys that both filters of a union had, perhaps in layers of other sizes."""

    @initialize(
        capacity=st.sampled_from([50, 900, 30_000]),
        fpp=st.sampled_from([0.3, 1e-2, 1e-6]),
        exact=st.booleans(),
        memory=MEMORY,
    )
    def create(self, memory: int | None, **parameters: Any) -> None:
        self.exact: bool = parameters["exact"]
        self.parameters = {**parameters, "key": KEY}
        self.open(memory)

    def open(self, memory: int | None) -> None:
        self.seen = BloomFilter.open(self.path, memory=memory, **self.parameters)

    def teardown(self) -> None:
        self.seen.close()
        shutil.rmtree(self.directory)

    @rule(numbers=RUNS)
    def add(self, numbers: list[int]) -> None:
        for number in numbers:
            new = self.seen.add(str(number))
            assert not (new and number in self.added), "a seen key was called new"
            if new:  # else, in a filter that is not exact, it need not come back
                self.added.add(number)
            else:
                assert number in self.added or not self.exact

    @rule(numbers=RUNS)
    def ask(self, numbers: list[int]) -> None:
        for number in numbers:
            known = str(number) in self.seen
            assert known or number not in self.added
            assert known == (number in self.added) or not self.exact

    @rule()
    def checkpoint(self) -> None:
        self.seen.checkpoint()
        self.committed = set(self.added)

    @rule()
    def fold(self) -> None:
        self.seen.fold()
        self.committed = set(self.added)

    @rule(memory=MEMORY)
    def crash(self, memory: int | None) -> None:
        """Forget everything since the last checkpoint, as a killed process does."""
        assert self.seen.store is not None
        self.seen.store.close()
        self.open(memory)
        assert disagreements(self.path / "data.mdb") == []
        # It has made later checkpoints, and a lost key may seem seen.
        left = {number for number in self.added if str(number) in self.seen}
        assert self.committed <= left
        assert len(self.added - left) < MOST_PENDING
        self.added, self.committed = left, set(left)
        self.ask([*NUMBERS])
        same = BloomFilter(**self.parameters)
        same.update(map(str, left))
        if self.seen.layer_count == same.layer_count == 1:
            assert self.seen == same

    @rule(memory=MEMORY)
    def reopen(self, memory: int | None) -> None:
        self.seen.close()
        self.open(memory)
        self.committed = set(self.added)

    @rule(numbers=RUNS)
    def union(self, numbers: list[int]) -> None:
        other = BloomFilter(**self.parameters)
        other.update(map(str, numbers))
        self.seen |= other
        self.common += len(self.added.intersection(numbers))
        self.added |= set(numbers)
        self.committed = set(self.added)

    @rule()
    def backup(self) -> None:
        self.copies += 1
        target = self.directory / f"copy{self.copies}"
        self.seen.backup(target)
        self.committed = set(self.added)
        with BloomFilter.open(target) as copy:
            assert copy == self.seen
            assert not any(copy.add(str(number)) for number in self.added)

    @precondition(lambda self: len(self.added) > 1_000)
    @rule()
    def clear(self) -> None:
        self.seen.clear()
        self.added = set()
        self.committed = set(self.added)

    @invariant()
    def it_is_as_the_model(self) -> None:
        if not hasattr(self, "seen"):
            return
        found, expected = len(self.seen), len(self.added)
        # The count of a union is an estimate.
        error = 0.02 * expected + 2
        surplus = found - expected
        assert not self.exact or -error <= surplus <= error + self.common


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MAX_PENDING", MOST_PENDING)
    monkeypatch.setattr(layer, "MIN_BACKLOG", 10)
    monkeypatch.setattr(layer, "MAX_BACKLOG", 20)
    monkeypatch.setattr(contents, "MAX_SWEEP", 2)
    monkeypatch.setattr(environment, "MAP_BYTES", 1 << 16)


def test_the_filter_behaves_as_a_set() -> None:
    FilterMachine.TestCase.settings = settings(
        max_examples=settings().max_examples * 3 // 5,
        stateful_step_count=30 if slow_tests_run() else 15,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    FilterMachine.TestCase("runTest").runTest()
