"""The moment of a checkpoint: no callback is at work, if that is soon."""

from __future__ import annotations

import pytest

from bloomdupe.crawl.engines import committing
from bloomdupe.crawl.engines.committing import (
    LATEST,
    LONGEST_HOLD,
    SHARE,
    SHORTEST_HOLD,
    SKIPPED,
    Quiet,
)


class Callbacks(Quiet):
    """Callbacks that are at work, of a spider that remembers something."""

    busy = remembers = True
    closes = False
    now = 0.0

    def __init__(self) -> None:
        super().__init__(lambda: self.busy, lambda: self.remembers, lambda: self.closes)

    def skipped(self) -> int:
        """Count the checkpoints that do not wait after the next hold in vain."""
        while self.waited(SHORTEST_HOLD):
            pass
        count = 0
        while not self.waits():
            count += 1
        return count

    def waited(self, seconds: float) -> bool:
        """Whether the checkpoint waits after so many more seconds."""
        self.now += seconds
        return self.waits()


@pytest.fixture
def callbacks(monkeypatch: pytest.MonkeyPatch) -> Callbacks:
    monkeypatch.setattr(committing, "monotonic", lambda: Callbacks.now)
    one = Callbacks()
    monkeypatch.setattr(committing, "monotonic", lambda: one.now)
    return one


def test_it_does_not_wait_if_the_spider_remembers_nothing(callbacks: Callbacks) -> None:
    callbacks.remembers = False
    assert not callbacks.waits()


def test_a_hold_in_vain_is_followed_by_a_longer_one_later(callbacks: Callbacks) -> None:
    steps = 0.0, SHORTEST_HOLD, SHARE * SHORTEST_HOLD - 0.15, 0.1
    held = [callbacks.waited(seconds) and callbacks.holds for seconds in steps]
    assert held == [True, False, False, True]
    assert callbacks.waited(1.5 * SHORTEST_HOLD)
    callbacks.busy = False
    assert not callbacks.waits()
    assert not callbacks.holds


def test_after_the_longest_hold_in_vain_some_do_not_wait(callbacks: Callbacks) -> None:
    ticks = 0
    while callbacks.waited(SHORTEST_HOLD / 10):
        ticks += 1
    passed = ticks * SHORTEST_HOLD / 10
    assert LATEST + LONGEST_HOLD < passed < LATEST + 2 * LONGEST_HOLD
    assert not any(callbacks.waits() for _ in range(SKIPPED))
    assert callbacks.waits()
    assert [callbacks.skipped() for _ in range(2)] == [2 * SKIPPED, 4 * SKIPPED]


def test_a_short_hold_is_tried_as_often_as_ever(callbacks: Callbacks) -> None:
    callbacks._longest = SHORTEST_HOLD
    assert [callbacks.skipped() for _ in range(3)] == [SKIPPED] * 3


def test_while_the_crawl_closes_it_waits_and_holds_nothing(
    callbacks: Callbacks,
) -> None:
    assert callbacks.waits()
    callbacks.closes = True
    assert callbacks.waited(2 * LATEST)
    assert not callbacks.holds
    callbacks.busy = False
    assert not callbacks.waits()
