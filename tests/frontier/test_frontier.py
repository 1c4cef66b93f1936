"""The contract of the frontier, in memory and in a store, and features of the store."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.enqueueing import enqueue

from bloomdupe import BloomFilter
from bloomdupe.errors import StoreDamagedError, StoreError
from bloomdupe.frontier import frontier
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.store.format import SLOTS, StoredSlot, slot_record
from bloomdupe.store.participant import Part

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=["memory", "store"])
def seen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BloomFilter]:
    if request.param == "memory":
        yield BloomFilter(1000, 1e-6)
    else:
        with BloomFilter.open(tmp_path / "store", 1000, 1e-6) as filter_:
            yield filter_


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[BloomFilter]:
    with BloomFilter.open(tmp_path / "store", 1000, 1e-6) as filter_:
        yield filter_


def drain(owed: Frontier) -> list[str]:
    """Hand out and acknowledge everything."""
    payloads = []
    while (entry := owed.pop()) is not None:
        assert entry.payload is not None
        payloads.append(entry.payload.decode())
        owed.ack(entry)
    return payloads


# The contract


def test_slots_take_turns(seen: BloomFilter) -> None:
    owed = Frontier(seen)
    for number in range(3):
        for slot in "abc":
            owed.push(slot, 0, f"{slot}{number}".encode())
    assert drain(owed) == ["a2", "b2", "c2", "a1", "b1", "c1", "a0", "b0", "c0"]


def test_the_least_busy_slot_is_next(seen: BloomFilter) -> None:
    owed = Frontier(seen)
    for slot in "aab":
        owed.push(slot, 0, slot.encode())
    first, second = owed.pop(), owed.pop()
    assert first is not None
    assert second is not None
    assert (first.payload, second.payload) == (b"a", b"b")
    owed.push("b", 0, b"b")
    owed.ack(second)  # now "b" is idle, and "a" is not
    third = owed.pop()
    assert third is not None
    assert third.payload == b"b"


def test_a_slot_that_must_wait_is_passed_over_until_its_time(
    seen: BloomFilter,
) -> None:
    now = [100.0]
    delays = {"slow": 3.0}
    owed = Frontier(
        seen, wait=lambda slot, _: delays.get(slot.name, 0.0), clock=lambda: now[0]
    )
    owed.push("slow", 0, b"slow")
    assert owed.pop() is None
    assert owed.seconds_until_ready() == 3.0
    owed.push("fast", 0, b"fast")
    assert drain(owed) == ["fast"]
    now[0] += 3.5
    delays.clear()
    assert owed.seconds_until_ready() == 0
    assert drain(owed) == ["slow"]
    assert owed.seconds_until_ready() is None


def test_a_full_slot_is_ready_again_when_a_request_is_done(
    seen: BloomFilter,
) -> None:
    owed = Frontier(seen, wait=lambda _, under_way: 60.0 * (under_way >= 2))
    for _ in range(3):
        owed.push("host", 0, b"x")
    first, _, third = (owed.pop() for _ in range(3))
    assert first is not None
    assert third is None
    owed.release(first)
    owed.release(first)  # twice is once
    assert owed.pop() is not None
    assert (owed.pending, owed.unacked) == (0, 3)


# In a store


def test_an_unstorable_request_stays_in_memory(
    stored: BloomFilter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frontier, "MAX_LOADED", 5_900)
    owed = Frontier(stored)
    for number in range(30):
        owed.push(f"host{number % 3}", 0, None, attachment=number)
    owed.push("host0", 0, b"x")
    owed.checkpoint()
    assert owed._loaded == sum(queue.loaded for queue in owed.slots)
    found = []
    while (entry := owed.pop()) is not None:
        found.append(entry.attachment)
        owed.ack(entry)
    assert len(found) == 31
    assert set(found) == {None, *range(30)}


def test_large_requests_are_bounded_by_their_bytes(stored: BloomFilter) -> None:
    owed = Frontier(stored)
    size = frontier.MAX_FRESH // 4
    for number in range(80):
        owed.push(f"host{number % 5}", 0, b"%d " % number + b"x" * size)
        assert owed._new_bytes <= frontier.MAX_FRESH + size + 2_000
        if owed.due:
            owed.checkpoint()
    owed.checkpoint()
    assert not owed.due
    found = []
    while (entry := owed.pop()) is not None:
        assert owed._loaded <= frontier.MAX_LOADED + size
        assert all(queue.loaded <= 2 * size for queue in owed.slots)
        assert entry.payload is not None
        found.append(int(entry.payload.split()[0]))
        owed.ack(entry)
        owed.checkpoint()
    assert sorted(found) == list(range(80))


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([3, 2], "the slots account for 5 requests, but 4 were written"),
        ([3, 1], "1 pending requests of slot 'a' are missing"),
    ],
)
def test_wrong_counts_of_slots_are_noticed(
    stored: BloomFilter, tmp_path: Path, counts: list[int], words: str
) -> None:
    owed = Frontier(stored)
    for slot in "aabb":
        owed.push(slot, 0, b"x")
    owed.checkpoint()
    assert owed.store is not None
    slots = dict(
        slot_record(StoredSlot(number, count, "ab"[number]))
        for number, count in enumerate(counts)
    )
    owed.store.commit(Part(changes={SLOTS: slots}))
    stored.close()
    with (
        BloomFilter.open(tmp_path / "store") as again,
        pytest.raises(StoreDamagedError, match=words),
    ):
        drain(Frontier(again))


# While a checkpoint is committed


def test_a_slot_of_a_checkpoint_that_was_given_up_is_forgotten(
    stored: BloomFilter,
) -> None:
    owed = Frontier(stored)
    enqueue(owed, b"a", "host")
    owed.prepare()
    drain(owed)
    owed.checkpoint()
    assert not len(owed.slots)


def test_in_memory_nothing_can_be_prepared() -> None:
    with pytest.raises(StoreError, match="in memory only"):
        Frontier(BloomFilter(1000)).prepare()


def test_a_slot_whose_turn_has_not_come_costs_200_bytes(
    stored: BloomFilter, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    count = 10_000
    owed = Frontier(stored)
    for number in range(count):
        owed.push(f"www.host{number:06d}.example", 0, b"x")
    owed.checkpoint()
    stored.close()
    with BloomFilter.open(tmp_path / "store") as again:
        request.addfinalizer(tracemalloc.stop)
        tracemalloc.start()
        owed = Frontier(again)
        assert tracemalloc.get_traced_memory()[0] < 200 * count
        assert owed.pending_in("www.host000007.example") == 1
        assert not [*owed.slots]


def test_cold_slots_keep_their_turns(
    stored: BloomFilter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frontier, "MAX_LOADED", 0)
    owed = Frontier(stored)
    for number in range(3):
        for slot in "abc":
            owed.push(slot, 0, f"{slot}{number}".encode())
    owed.checkpoint()
    assert not [*owed.slots]
    found = []
    while (entry := owed.pop()) is not None:
        assert entry.payload is not None
        found.append(entry.payload.decode()[0])
        owed.ack(entry)
        owed.push("b", -1, b"b") if len(found) == 1 else None
        owed.checkpoint()
    assert "".join(found) == "abcabcabcb"
