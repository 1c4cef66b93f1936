"""What a crawl does next, and how it ends, from how it stands."""

from __future__ import annotations

import pytest

from bloomdupe.crawl.progress.standing import Move, Standing, ended, next_move


@pytest.mark.parametrize(
    ("standing", "move"),
    [
        (Standing(ready=1), Move.GO_ON),
        (Standing(ready=1, in_progress=1, stays=True), Move.GO_ON),
        (Standing(more=True), Move.GO_ON),
        (Standing(later=1, due_in=1e9), Move.SLEEP),
        (Standing(later=1, due_in=10, longest_sleep=10, stays=True), Move.SLEEP),
        (Standing(later=1, due_in=11, longest_sleep=10), Move.END),
        (Standing(stays=True), Move.WAIT),
        (Standing(in_progress=1, stays=True), Move.WAIT),
        (Standing(), Move.END),
        (Standing(in_progress=1), Move.END),
    ],
)
def test_next_moves(standing: Standing, move: Move) -> None:
    assert next_move(standing).move is move


@pytest.mark.parametrize(
    ("standing", "given", "reason", "status"),
    [
        (Standing(), "finished", "finished", 0),
        (Standing(), "asked_to_stop", "finished", 0),
        (Standing(), "shutdown", "shutdown", 0),
        (Standing(start_ended=False), "asked_to_stop", "asked_to_stop", 0),
        (Standing(more=True), "closespider_timeout", "closespider_timeout", 0),
        (Standing(ready=1), "asked_to_stop", "asked_to_stop", 0),
        (Standing(later=2), "finished", "waiting", 0),
        (Standing(later=2, apart=1), "finished", "incomplete", 1),
        (Standing(in_progress=1), "finished", "incomplete", 1),
        (Standing(apart=1), "finished", "incomplete", 1),
        (Standing(apart=1), "enough", "enough", 0),
    ],
)
def test_ends(standing: Standing, given: str, reason: str, status: int) -> None:
    decision = ended(standing, given)
    assert (decision.reason, decision.status) == (reason, status)
