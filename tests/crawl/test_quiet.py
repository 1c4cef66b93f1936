"""The moment of a checkpoint: no callback is at work, if that is soon."""

from __future__ import annotations

import pytest

from bloomdupe.crawl.engines import committing
from bloomdupe.crawl.engines.committing import Quiet


class Callbacks(Quiet):
    """Callbacks that are at work, of a spider that remembers something."""

    busy = remembers = True

    def __init__(self) -> None:
        super().__init__(lambda: self.busy, lambda: self.remembers)


@pytest.fixture
def callbacks(monkeypatch: pytest.MonkeyPatch) -> Callbacks:
    monkeypatch.setattr(committing, "LONGEST_WAIT", 1e9)
    return Callbacks()


def test_it_does_not_wait_if_the_spider_remembers_nothing(callbacks: Callbacks) -> None:
    callbacks.remembers = False
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
    callbacks.end()
    assert not callbacks.holds
