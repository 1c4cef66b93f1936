"""Requests scheduled for later: properties that the model does not check."""

from __future__ import annotations

import math
import shutil
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from bloomdupe import BloomFilter
from bloomdupe.errors import StoreDamagedError
from bloomdupe.frontier import frontier, later, slot_queue
from bloomdupe.frontier.agreement import disagreements
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.store.format import LATER, read_later
from bloomdupe.store.lmdb.check import check, verify
from bloomdupe.store.participant import Part

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bloomdupe.frontier.slot_queue import Entry
    from bloomdupe.store.batch import Batch

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
def owed(
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


def lease(owed: Frontier) -> Entry:
    entry = owed.lease()
    assert entry is not None
    return entry


def drain(owed: Frontier) -> list[bytes]:
    payloads = []
    while (entry := owed.lease()) is not None:
        assert entry.payload is not None
        payloads.append(entry.payload)
        owed.settle(entry)
    return payloads


def test_a_scheduled_request_is_not_leased_before_its_time(
    owed: Frontier, wall: Wall
) -> None:
    owed.push("host", 0, b"at ten", not_before=NOON + 10.25)
    owed.push("host", 0, b"now")
    assert (owed.pending, owed.waiting, owed.next_due) == (1, 1, NOON + 10.25)
    assert drain(owed) == [b"now"]
    assert owed.seconds_until_ready() == pytest.approx(10.25)
    wall.now += 10.125
    assert drain(owed) == []
    wall.now += 0.125
    assert drain(owed) == [b"at ten"]
    assert (owed.pending, owed.waiting, owed.leased) == (0, 0, 0)
    assert owed.seconds_until_ready() is None


def test_a_time_that_has_passed_is_now(owed: Frontier) -> None:
    for number, due in enumerate([NOON, NOON - 1, 0.0, -1e9]):
        owed.push("host", number, b"%d" % number, not_before=due)
    assert (owed.pending, owed.waiting) == (4, 0)
    assert drain(owed) == [b"3", b"2", b"1", b"0"]


def test_due_requests_have_the_usual_order(owed: Frontier, wall: Wall) -> None:
    owed.push("host", 0, b"first", not_before=NOON + 1)
    owed.push("host", 5, b"high", not_before=NOON + 3)
    owed.push("host", 0, b"start", not_before=NOON + 1, start=True)
    owed.push("host", 0, b"second", not_before=NOON + 2)
    owed.push("host", 10**30, b"highest", not_before=NOON + 3)
    owed.push("host", 0, b"too late", not_before=NOON + 4)
    owed.push("host", 4, b"pending")
    wall.now += 3
    order = [b"highest", b"high", b"pending", b"second", b"first", b"start"]
    assert drain(owed) == order


def test_requests_in_memory_can_be_withdrawn(wall: Wall) -> None:
    owed = Frontier(BloomFilter(1000, 1e-6), wall=wall)
    for number in range(9):
        owed.push("host", 0, b"%d" % number, not_before=NOON + 1 + number)
    owed.push("host", 0, b"now")
    gone = owed.withdraw(lambda entry: entry.payload in {b"0", b"5", b"now"})
    assert {entry.payload for entry in gone} == {b"0", b"5", b"now"}
    assert (owed.waiting, owed.next_due) == (7, NOON + 2)
    wall.now += 60
    assert drain(owed) == [b"8", b"7", b"6", b"4", b"3", b"2", b"1"]
    assert owed.next_due == math.inf


def test_a_single_request_stays_in_memory_however_large(
    stored: BloomFilter, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(later, "MAX_NEAR", 900)
    owed = Frontier(stored, wall=wall)
    owed.push("host", 0, b"x", not_before=NOON + 1)
    owed.checkpoint()
    assert owed._later is not None
    assert len(owed._later.heap or ()) == 1
    wall.now += 1
    assert drain(owed) == [b"x"]


def test_a_due_request_has_the_delay_of_its_slot(wall: Wall) -> None:
    owed = Frontier(
        BloomFilter(1000, 1e-6),
        wall=wall,
        wait=lambda _, out: out * 7.0,
        clock=lambda: 100.0,
    )
    for _ in range(2):
        owed.push("host", 0, b"x", not_before=NOON + 1)
    wall.now += 1
    assert owed.lease() is not None
    assert owed.lease() is None
    assert owed.seconds_until_ready() == pytest.approx(7)


def test_when_the_clock_is_set_back_it_waits_for_its_time(
    owed: Frontier, wall: Wall
) -> None:
    owed.push("host", 0, b"x", not_before=NOON + 10)
    wall.now -= 86_400
    assert drain(owed) == []
    assert owed.seconds_until_ready() == pytest.approx(86_410)
    wall.now += 86_410
    assert drain(owed) == [b"x"]


def test_after_a_crash_it_waits_or_is_pending_and_never_both(
    stored: BloomFilter, tmp_path: Path, wall: Wall
) -> None:
    owed = Frontier(stored, wall=wall)
    for number in range(4):
        owed.push("host", 0, b"%d" % number, not_before=NOON + number + 1)
    owed.checkpoint()
    wall.now += 2  # 0 and 1 are due: one is done, the other is leased
    for _ in range(2):
        entry = lease(owed)
    owed.settle(entry)
    before = tmp_path / "before"
    shutil.copytree(tmp_path / "store", before)
    owed.checkpoint()
    assert disagreements(check(tmp_path / "store" / "data.mdb")) == []
    stored.close()
    for path, left in ((tmp_path / "store", [b"1"]), (before, [b"1", b"0"])):
        with BloomFilter.open(path) as seen:
            owed = Frontier(seen, wall=wall)
            assert owed.pending + owed.waiting == len(left) + 2
            assert drain(owed) == left
            wall.now += 2
            assert drain(owed) == [b"3", b"2"]
            wall.now -= 2
            owed.checkpoint()
            assert disagreements(check(path / "data.mdb")) == []
        assert verify(path).problems == []


def test_an_unstorable_request_waits_in_memory(
    stored: BloomFilter, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(later, "MAX_NEAR", 2_900)
    owed = Frontier(stored, wall=wall)
    for number in range(6):
        payload = b"%d" % number if number % 2 else None
        due = NOON + 1 + number
        owed.push("host", 0, payload, attachment=number, not_before=due)
        owed.checkpoint()
    order = []
    for _ in range(6):
        wall.now += 1
        entry = lease(owed)
        order.append(entry.attachment if entry.payload is None else int(entry.payload))
        owed.settle(entry)
    assert order == list(range(6))


def test_moved_requests_are_not_read_again_when_the_clock_is_set_back(
    stored: BloomFilter, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(later, "MAX_NEAR", 1_900)
    owed = Frontier(stored, wall=wall)
    owed.push("host", 0, b"ten", not_before=NOON + 10)
    owed.push("host", 0, b"thirty", not_before=NOON + 30)
    owed.checkpoint()
    change = owed.prepare()
    assert owed.store is not None
    owed.store.commit(change)  # a checkpoint is in progress
    change = owed.prepare()
    wall.now += 10
    ten = lease(owed)
    wall.now -= 10
    for seconds in (5, 6):
        owed.push("host", 0, b"%d" % seconds, not_before=NOON + seconds)
    owed.store.commit(change)
    owed.settle(ten)
    wall.now += 30
    assert drain(owed) == [b"thirty", b"6", b"5"]


def test_memory_is_bounded(
    stored: BloomFilter,
    wall: Wall,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.setattr(later, "MAX_NEAR", 50_900)
    monkeypatch.setattr(slot_queue, "MAX_BATCH", 20)
    monkeypatch.setattr(frontier, "MAX_FRESH", 100_000)
    monkeypatch.setattr(frontier, "MAX_LOADED", 200_000)
    owed = Frontier(stored, wall=wall)
    payload = b"x" * 1_000
    bound = 1_500 * len(payload)
    request.addfinalizer(tracemalloc.stop)
    tracemalloc.start()
    for number in range(2_500):
        due = NOON + number % 9
        owed.push(f"host-{number % 7}", 0, b"%d" % number + payload, not_before=due)
        if owed.due:
            owed.checkpoint()
        assert tracemalloc.get_traced_memory()[0] < bound
    wall.now += 9  # they are due all at once, and come in pieces
    found = 0
    while (entry := owed.lease()) is not None:
        found += 1
        owed.settle(entry)
        if found % 100 == 0:
            owed.checkpoint()
        assert tracemalloc.get_traced_memory()[0] < bound
    assert found == 2_500


def test_large_requests_are_bounded_by_their_bytes(
    stored: BloomFilter, wall: Wall
) -> None:
    owed = Frontier(stored, wall=wall)
    size = frontier.MAX_FRESH // 4
    for number in range(40):
        owed.push("host", 0, b"%d " % number + b"x" * size, not_before=NOON + 1)
        if owed.due:
            owed.checkpoint()
        assert owed._later is not None
        assert owed._later.fresh_bytes <= frontier.MAX_FRESH
        assert owed._later.loaded <= later.MAX_NEAR + frontier.MAX_FRESH
    owed.checkpoint()
    wall.now += 1
    found = []
    assert owed._later is not None
    while (entry := owed.lease()) is not None:
        assert owed._loaded <= frontier.MOST_MOVED + size + 2_000
        assert owed._later.loaded <= later.MAX_NEAR + size + 2_000
        assert entry.payload is not None
        found.append(int(entry.payload.split()[0]))
        owed.settle(entry)
        owed.checkpoint()
    assert sorted(found) == list(range(40))


def test_a_store_without_scheduled_requests_has_no_database_for_them(
    stored: BloomFilter, wall: Wall
) -> None:
    owed = Frontier(stored, wall=wall)
    owed.push("host", 0, b"x", not_before=NOON)
    owed.checkpoint()
    assert "later" not in (stored.record("frontier") or {})
    owed.push("host", 0, b"x", not_before=NOON + 1)
    owed.checkpoint()
    assert (stored.record("frontier") or {})["later"]["requests"] == 1


class Lose:
    """Part of a transaction that deletes a request, and says so or not."""

    def __init__(self, key: bytes, *, quietly: bool) -> None:
        self.key = key
        self.quietly = quietly

    def write(self, batch: Batch) -> None:
        if self.quietly:
            batch.delete(LATER, [self.key])
        else:
            batch.change(LATER, [(self.key, None)])


def open_frontier(path: Path) -> None:
    with BloomFilter.open(path) as seen:
        Frontier(seen)


@pytest.mark.parametrize("quietly", [True, False])
def test_a_missing_request_is_noticed(
    stored: BloomFilter, tmp_path: Path, wall: Wall, quietly: bool
) -> None:
    owed = Frontier(stored, wall=wall)
    for number in range(3):
        owed.push("host", 0, b"%d" % number, not_before=NOON + 1 + number)
    owed.checkpoint()
    assert owed.store is not None
    with owed.store.snapshot() as snapshot:
        _, second, _ = snapshot.later()
    owed.store.commit(Part(write=Lose(second.key, quietly=quietly).write))
    stored.close()
    path = tmp_path / "store"
    assert verify(path).problems + disagreements(check(path / "data.mdb"))
    with pytest.raises(StoreDamagedError, match="2 later records stand where 3"):
        open_frontier(path)


def test_a_backup_has_scheduled_requests(
    stored: BloomFilter, tmp_path: Path, wall: Wall
) -> None:
    owed = Frontier(stored, wall=wall)
    owed.push("höst", -5, b"x", not_before=NOON + 0.25, start=True)
    owed.checkpoint()
    stored.backup(tmp_path / "backup")
    with BloomFilter.open(tmp_path / "backup") as seen:
        store = Frontier(seen, wall=wall).store
        assert store is not None
        with store.snapshot() as snapshot:
            (found,) = snapshot.later()
    assert found._replace(checksum=0, key=b"") == (b"", "höst", -5, True, b"x", 0)
    assert found.due == NOON + 0.25


def test_the_bytes_on_disk_are_these(stored: BloomFilter, wall: Wall) -> None:
    """Another store of this format must open."""
    owed = Frontier(stored, wall=wall)
    owed.push("a.b", -2, b"\x91\xa1x", not_before=1_900_000_000.000001, start=True)
    owed.checkpoint()
    assert owed.store is not None
    with owed.store.snapshot() as snapshot:
        (found,) = snapshot.later()
        value = snapshot.value(LATER, found.key)
        assert value is not None
        raw = bytes(value)
    assert found.key.hex() == "0006c00a3912c0010000000000000000"
    assert raw[8:] == b"\x01\xfe\xff\xff\xff\xff\xff\xff\xff\3\0\0\0a.b\x91\xa1x"
    assert raw[:8].hex() == "f34b2d9a06d5d05c"
    assert read_later(found.key, raw) == found
