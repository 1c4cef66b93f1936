"""Ranks sort requests as the words say, and the keys made of them the other way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bloomdupe.frontier.slot_queue import AFTER_ALL, BEFORE_ALL, QueueOrder

PRIORITIES = (
    st.integers(-400, 400)
    | st.integers(-(2**33), 2**33)
    | st.sampled_from([2**31 - 2, 2**31 - 1, 2**31, 10**30]).flatmap(
        lambda edge: st.sampled_from([edge, -edge])
    )
)
SEQUENCES = st.integers(0, 10) | st.integers(0, 2**47 - 1)
REQUESTS = st.tuples(PRIORITIES, SEQUENCES, st.booleans(), st.booleans())


def rank(priority: int, sequence: int, start: bool, fifo: bool) -> bytes:
    return QueueOrder(fifo, fifo).rank(priority, sequence, start=start)


def turn(priority: int, sequence: int, start: bool, fifo: bool) -> tuple[int, ...]:
    """Say the same in plain numbers."""
    limit = 2**31 - 1
    bounded = max(-limit, min(priority, limit))
    return (-bounded, start, sequence if fifo else 2**47 - 1 - sequence)


@given(REQUESTS, REQUESTS)
def test_ranks_sort_by_priority_start_and_age(
    one: tuple[int, int, bool, bool], other: tuple[int, int, bool, bool]
) -> None:
    assert (rank(*one) < rank(*other)) == (turn(*one) < turn(*other))
    assert (rank(*one) == rank(*other)) == (turn(*one) == turn(*other))
    assert BEFORE_ALL < rank(*one) < AFTER_ALL
