"""Delayed requests: properties that the model does not check."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest

from bloomdupe import BloomFilter
from bloomdupe.frontier import delayed, partition, slot_queue
from bloomdupe.frontier.frontier import Frontier

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bloomdupe.frontier.slot_queue import Entry

NOON = 1_800_000_000.0


class Wall:
    """A clock that can be set."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture(params=["memory", "store"])
def frontier(
    request: pytest.FixtureRequest, tmp_path: Path, wall: Wall
) -> Iterator[Frontier]:
    if request.param == "memory":
        yield Frontier(BloomFilter(1000, 1e-6), wall=wall)
    else:
        with BloomFilter.open(tmp_path / "store", 1000, 1e-6) as seen:
            yield Frontier(seen, wall=wall)


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[BloomFilter]:
    with BloomFilter.open(tmp_path / "store", 1000, 1e-6) as seen:
        yield seen


def popped(frontier: Frontier) -> Entry:
    entry = frontier.pop()
    assert entry is not None
    return entry


def drain(frontier: Frontier) -> list[bytes]:
    payloads = []
    while (entry := frontier.pop()) is not None:
        assert entry.payload is not None
        payloads.append(entry.payload)
        frontier.ack(entry)
    return payloads


def test_a_scheduled_request_is_not_handed_out_before_its_time(
    frontier: Frontier, wall: Wall
) -> None:
    frontier.push("host", 0, b"at ten", not_before=NOON + 10.25)
    frontier.push("host", 0, b"now")
    assert (frontier.pending, frontier.waiting, frontier.next_due) == (
        1,
        1,
        NOON + 10.25,
    )
    assert drain(frontier) == [b"now"]
    assert frontier.seconds_until_ready() == pytest.approx(10.25)
    wall.now += 10.125
    assert drain(frontier) == []
    wall.now += 0.125
    assert drain(frontier) == [b"at ten"]
    assert (frontier.pending, frontier.waiting, frontier.unacked) == (0, 0, 0)
    assert frontier.seconds_until_ready() is None


def test_due_requests_have_the_usual_order(frontier: Frontier, wall: Wall) -> None:
    frontier.push("host", 0, b"first", not_before=NOON + 1)
    frontier.push("host", 5, b"high", not_before=NOON + 3)
    frontier.push("host", 0, b"start", not_before=NOON + 1, start=True)
    frontier.push("host", 0, b"second", not_before=NOON + 2)
    frontier.push("host", 10**30, b"highest", not_before=NOON + 3)
    frontier.push("host", 0, b"too late", not_before=NOON + 4)
    frontier.push("host", 4, b"pending")
    wall.now += 3
    order = [b"highest", b"high", b"pending", b"second", b"first", b"start"]
    assert drain(frontier) == order


def test_memory_is_bounded(
    stored: BloomFilter,
    wall: Wall,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.setattr(delayed, "MAX_NEAR", 50_900)
    monkeypatch.setattr(slot_queue, "MAX_BATCH", 20)
    monkeypatch.setattr(partition, "MAX_FRESH", 100_000)
    monkeypatch.setattr(partition, "MAX_LOADED", 200_000)
    frontier = Frontier(stored, wall=wall)
    payload = b"x" * 1_000
    bound = 1_500 * len(payload)
    request.addfinalizer(tracemalloc.stop)
    tracemalloc.start()
    for number in range(2_500):
        due = NOON + number % 9
        frontier.push(f"host-{number % 7}", 0, b"%d" % number + payload, not_before=due)
        if frontier.due:
            frontier.checkpoint()
        assert tracemalloc.get_traced_memory()[0] < bound
    wall.now += 9  # they are due all at once, and come in pieces
    found = 0
    while (entry := frontier.pop()) is not None:
        found += 1
        frontier.ack(entry)
        if found % 100 == 0:
            frontier.checkpoint()
        assert tracemalloc.get_traced_memory()[0] < bound
    assert found == 2_500
