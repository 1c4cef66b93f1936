"""The contract of the frontier, in memory and in a store, and features of the store."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from threading import enumerate as enumerate_threads
from typing import TYPE_CHECKING, Any

import pytest
from support.owners_model import PARTITIONS, Worker, World

from bloomdupe import BloomFilter
from bloomdupe.errors import StoreDamagedError
from bloomdupe.frontier import partition, slot_queue
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.store.format import SLOTS, StoredSlot, slot_record
from bloomdupe.store.store import Part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.redis_server import RedisServer

NOON = 1_800_000_000.0


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[BloomFilter]:
    with BloomFilter.open(tmp_path / "store", 1000, 1e-6) as filter_:
        yield filter_


@pytest.fixture(params=["memory", "store"])
def seen(request: pytest.FixtureRequest) -> Any:
    if request.param == "memory":
        return BloomFilter(1000, 1e-6)
    return request.getfixturevalue("stored")


def drain(frontier: Frontier) -> list[str]:
    """Hand out and acknowledge everything."""
    payloads = []
    while (entry := frontier.pop()) is not None:
        assert entry.payload is not None
        payloads.append(entry.payload.decode())
        frontier.ack(entry)
    return payloads


# The contract


def test_a_slot_that_must_wait_is_passed_over_until_its_time(
    seen: BloomFilter,
) -> None:
    now = [100.0]
    delays = {"slow": 3.0}
    frontier = Frontier(
        seen, wait=lambda slot, _: delays.get(slot.name, 0.0), clock=lambda: now[0]
    )
    frontier.push("slow", 0, b"slow")
    assert frontier.pop() is None
    assert frontier.seconds_until_ready() == 3.0
    frontier.push("fast", 0, b"fast")
    assert drain(frontier) == ["fast"]
    now[0] += 3.5
    delays.clear()
    assert frontier.seconds_until_ready() == 0
    assert drain(frontier) == ["slow"]
    assert frontier.seconds_until_ready() is None


def test_a_full_slot_is_ready_again_when_a_request_is_done(
    seen: BloomFilter,
) -> None:
    frontier = Frontier(seen, wait=lambda _, under_way: 60.0 * (under_way >= 2))
    for _ in range(3):
        frontier.push("host", 0, b"x")
    first, _, third = (frontier.pop() for _ in range(3))
    assert first is not None
    assert third is None
    frontier.release(first)
    frontier.release(first)  # twice is once
    assert frontier.pop() is not None
    assert (frontier.pending, frontier.unacked) == (0, 3)


def test_due_requests_have_the_usual_order(seen: BloomFilter) -> None:
    now = [NOON]
    frontier = Frontier(seen, wall=lambda: now[0])
    frontier.push("host", 0, b"first", not_before=NOON + 1)
    frontier.push("host", 5, b"high", not_before=NOON + 3)
    frontier.push("host", 0, b"start", not_before=NOON + 1, start=True)
    frontier.push("host", 0, b"second", not_before=NOON + 2)
    frontier.push("host", 10**30, b"highest", not_before=NOON + 3)
    frontier.push("host", 0, b"too late", not_before=NOON + 4)
    frontier.push("host", 4, b"pending")
    now[0] += 3
    order = ["highest", "high", "pending", "second", "first", "start"]
    assert drain(frontier) == order


# In a store


def test_memory_is_bounded(
    stored: BloomFilter,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Half of the requests are delayed, and due all at once."""
    monkeypatch.setattr(slot_queue, "MAX_BATCH", 20)
    monkeypatch.setattr(partition, "MAX_FRESH", 100_000)
    monkeypatch.setattr(partition, "MAX_LOADED", 200_000)
    now = [NOON]
    frontier = Frontier(stored, wall=lambda: now[0])
    count, size = 4_000, 1_000
    bound = 1_500 * size
    request.addfinalizer(tracemalloc.stop)
    tracemalloc.start()
    for number in range(count):
        due = NOON + number % 9 if number % 2 else None
        payload = b"%d " % number + b"x" * size
        frontier.push(f"host-{number % 7}", 0, payload, not_before=due)
        if frontier.due:
            frontier.checkpoint()
        assert tracemalloc.get_traced_memory()[0] < bound
    frontier.checkpoint()
    assert not frontier.due
    now[0] += 9
    found = []
    while (entry := frontier.pop()) is not None:
        assert entry.payload is not None
        found.append(int(entry.payload.split()[0]))
        frontier.ack(entry)
        if len(found) % 100 == 0:
            frontier.checkpoint()
        assert tracemalloc.get_traced_memory()[0] < bound
    assert sorted(found) == [*range(count)]


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
    frontier = Frontier(stored)
    for slot in "aabb":
        frontier.push(slot, 0, b"x")
    frontier.checkpoint()
    slots = dict(
        slot_record(StoredSlot(number, count, "ab"[number]))
        for number, count in enumerate(counts)
    )
    frontier.checkpoint(Part(changes={SLOTS: slots}))
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
    frontier = Frontier(stored)
    frontier.push("host", 0, b"a")
    frontier.partitions[0].prepare()
    assert frontier.changed
    drain(frontier)
    frontier.checkpoint()
    assert not frontier.slot_count


def test_a_slot_whose_turn_has_not_come_costs_200_bytes(
    stored: BloomFilter, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    count = 10_000
    frontier = Frontier(stored)
    for number in range(count):
        frontier.push(f"www.host{number:06d}.example", 0, b"x")
    frontier.checkpoint()
    stored.close()
    with BloomFilter.open(tmp_path / "store") as again:
        request.addfinalizer(tracemalloc.stop)
        tracemalloc.start()
        frontier = Frontier(again)
        assert tracemalloc.get_traced_memory()[0] < 200 * count
        assert frontier.pending_in("www.host000007.example") == 1
        assert not [*frontier.queues()]


def test_cold_slots_keep_their_turns(
    stored: BloomFilter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition, "MAX_LOADED", 0)
    frontier = Frontier(stored)
    for number in range(3):
        for slot in "abc":
            frontier.push(slot, 0, f"{slot}{number}".encode())
    frontier.push("a", 0, b"next", not_before=NOON * 9)  # it stays in memory
    frontier.checkpoint()
    assert not [*frontier.queues()]
    found = []
    while (entry := frontier.pop()) is not None:
        assert entry.payload is not None
        found.append(entry.payload.decode()[0])
        frontier.ack(entry)
        frontier.push("b", -1, b"b") if len(found) == 1 else None
        frontier.checkpoint()
    assert "".join(found) == "abcabcabcb"


# On Redis


def test_a_worker_that_joins_gets_a_part_of_the_work(redis_server: RedisServer) -> None:
    """Only the last two partitions have any."""
    world = World(redis_server, 0)
    one = Worker(world).frontier
    assert one.join()
    for slot in "cf":
        one.push(slot, 0, b"x")
    two = Worker(world).frontier
    one.owner.live(lease=60)
    while len(two.partitions) < PARTITIONS // 2:
        for each in (one, two):
            each.checkpoint()
            for call in each.sampling(lambda _: None):
                call()
    assert (one.pending, two.pending) == (1, 1)
    one.close(failed=False)
    two.close(failed=False)
    assert not world.judge.hlen(f"bd:{{{world.name}}}:owners")
    for thread in enumerate_threads():
        if "heart" in thread.name:
            thread.join(9)
            assert not thread.is_alive()
