"""The moment of a checkpoint: no callback is at work, if that is soon."""

from __future__ import annotations

from typing import Any

import pytest

from bloomdupe.crawl.engines import committing
from bloomdupe.crawl.engines.committing import Quiet


class Callbacks:
    busy = True
    matter = True

    def __init__(self) -> None:
        self.quiet = Quiet(lambda: self.busy, lambda: self.matter)

    def waits(self) -> bool:
        waits = self.quiet.waits()
        assert self.quiet.holds == waits
        return waits


@pytest.fixture
def callbacks(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(committing, "LONGEST_WAIT", 1e9)
    return Callbacks()


def test_a_checkpoint_waits_until_no_callback_is_at_work(callbacks: Callbacks) -> None:
    for _ in range(2):
        assert [callbacks.waits() for _ in range(3)] == [True] * 3
        callbacks.busy = False
        assert not callbacks.waits()
        callbacks.busy = True


def test_it_does_not_wait_if_the_spider_remembers_nothing(callbacks: Callbacks) -> None:
    callbacks.matter = False
    assert not callbacks.waits()


def test_after_a_wait_in_vain_some_do_not_wait(
    callbacks: Callbacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callbacks.waits()
    monkeypatch.setattr(committing, "LONGEST_WAIT", 0)
    assert not callbacks.waits()
    assert not any(callbacks.waits() for _ in range(committing.SKIPPED))
    assert callbacks.waits()


def test_a_checkpoint_that_cannot_wait_lets_callbacks_go_on(
    callbacks: Callbacks,
) -> None:
    assert callbacks.waits()
    callbacks.quiet.end()
    assert not callbacks.quiet.holds
