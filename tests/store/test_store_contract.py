"""The contract of a store, for each of them: the same tests."""

from __future__ import annotations

import random
from contextlib import closing
from typing import TYPE_CHECKING, Any

import lmdb
import pytest
from support.full_filter import take_everything_for_seen
from support.owners_model import joined

from bloomdupe import BloomFilter
from bloomdupe.errors import StoreDamagedError, StoreError
from bloomdupe.frontier.slot_queue import BEFORE_ALL, QueueOrder
from bloomdupe.store.format import (
    BLOCKS,
    COOKIES,
    DELAYED,
    EXACT,
    FAILURES,
    HISTORY,
    JOURNAL,
    QUEUE,
    TABLES,
    delayed_rank,
    delayed_value,
    due_of,
    request_key,
)
from bloomdupe.store.lmdb.lmdb_store import Directory
from bloomdupe.store.redis.address import Address
from bloomdupe.store.redis.client import Client
from bloomdupe.store.redis.crawl_reader import CrawlOnRedis
from bloomdupe.store.redis.redis_store import RedisStore
from bloomdupe.store.store import Part

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.redis_server import RedisServer

    from bloomdupe.store.store import Store, StorePlace

RECORDS: dict[str, dict[str, Any]] = {"store": {"identity": {}}, "first": {"a": 1}}


class OnLmdb:
    def __init__(self, path: Path) -> None:
        self.path = path / "store"

    def place(self) -> StorePlace:
        return Directory(self.path)

    def reader(self) -> Store:
        return Directory(self.path).open(readonly=True)

    def damage(self, table: bytes, key: bytes, value: bytes) -> None:
        with lmdb.open(str(self.path), max_dbs=len(TABLES), lib_version=0) as env:
            database = env.open_db(table)
            with env.begin(write=True) as txn:
                txn.put(key, value, db=database)


class OnRedis:
    """A crawl of one partition."""

    def __init__(self, path: Path, server: RedisServer) -> None:
        self.server = server
        self.name = path.name
        self.address = Address.of(server.url(self.name))

    def place(self) -> StorePlace:
        """Return the partition, which a new worker takes from the one before."""
        owner = joined(self.address)
        store = owner.stores[0]
        store.close = owner.close  # type: ignore[method-assign]
        return store

    def reader(self) -> Store:
        return RedisStore(CrawlOnRedis(Client(self.address)), 0)

    def damage(self, table: bytes, key: bytes, value: bytes) -> None:
        with self.server.client() as client:
            place = f"bd:{{{self.name}}}:0:{table.decode()}"
            if table == QUEUE:
                client.zremrangebylex(place, b"[" + key, b"(" + key + b"\xff" * 9)
                client.zadd(place, {key + value: 0})
            else:
                client.hset(place, key.decode("latin-1"), value)


Backend = OnLmdb | OnRedis


@pytest.fixture(params=["lmdb", "redis"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    if request.param == "lmdb":
        return OnLmdb(tmp_path)
    return OnRedis(tmp_path, request.getfixturevalue("redis_server"))


@pytest.fixture
def store(backend: Backend) -> Iterator[Store]:
    made = backend.place().create(RECORDS)
    yield made
    made.close()


def changing(table: bytes, *changes: tuple[bytes, bytes | None]) -> Part:
    return Part(changes={table: dict(changes)})


def of(store: Store, table: bytes) -> dict[bytes, bytes]:
    with store.snapshot() as snapshot:
        return {key: bytes(value) for key, value in snapshot.records(table)}


# A place


def test_a_place_is_empty_until_a_store_is_made_there(backend: Backend) -> None:
    place = backend.place()
    assert not place.exists()
    place.create(RECORDS).close()
    place = backend.place()
    assert place.exists()
    store = place.open()
    assert store.header["identity"] == {}
    with store.snapshot() as snapshot:
        assert snapshot.record("first") == {"a": 1}
        assert snapshot.record("second") is None
    store.close()


def test_a_directory_has_one_owner(tmp_path: Path) -> None:
    place = Directory(tmp_path / "store")
    with closing(place.create(RECORDS)), pytest.raises(StoreError, match="in use"):
        place.open()


def test_a_reader_writes_nothing(backend: Backend, store: Store) -> None:
    store.commit(changing(HISTORY, (b"a", b"1")))
    store.close()  # LMDB opens a file once in a process
    reader = backend.reader()
    assert reader.readonly
    assert of(reader, HISTORY) == {b"a": b"1"}
    with pytest.raises(StoreError):
        reader.commit(changing(HISTORY, (b"a", b"3")))
    reader.close()


# A commit


def test_a_commit_is_begun_sent_and_done(store: Store) -> None:
    told = []
    one = changing(HISTORY, (b"a", b"1"))
    one.done = lambda: told.append(1)
    two = changing(HISTORY, (b"b", b"2"))
    two.done = lambda: told.append(2)
    commit = store.begin(one, two)
    assert (of(store, HISTORY), told) == ({}, [])
    commit.send()
    assert (of(store, HISTORY), told) == ({b"a": b"1", b"b": b"2"}, [])
    commit.done()
    assert told == [1, 2]


def test_a_commit_that_is_not_sent_leaves_nothing(store: Store) -> None:
    store.begin(changing(HISTORY, (b"a", b"1")))
    store.commit(changing(HISTORY, (b"b", b"2")))
    assert of(store, HISTORY) == {b"b": b"2"}


def test_a_part_that_raises_writes_nothing_and_may_come_again(store: Store) -> None:
    told = []
    broken: Any = Part(changes={b"no table": {b"a": b"1", b"b": 7}})  # type: ignore[dict-item]
    part = changing(HISTORY, (b"a", b"1"))
    part.done = lambda: told.append(1)
    with pytest.raises((KeyError, TypeError)):
        store.commit(part, broken)
    assert (of(store, HISTORY), told) == ({}, [])
    store.commit(part)
    assert (of(store, HISTORY), told) == ({b"a": b"1"}, [1])


def test_every_part_is_told_even_if_one_raises_then(store: Store) -> None:
    told = []

    def fail() -> None:
        raise ValueError("broken")

    other = Part(done=lambda: told.append(1))
    with pytest.raises(ValueError, match="broken"):
        store.commit(Part(done=fail), other)
    assert told == [1]


# Tables of records


def test_records_are_put_replaced_and_removed(backend: Backend, store: Store) -> None:
    store.commit(changing(FAILURES, (b"b", b"1"), (b"a", b"2"), (b"c", b"")))
    store.commit(changing(FAILURES, (b"b", None), (b"c", b"3"), (b"d", None)))
    store.commit(changing(FAILURES, (b"e", b"4"), (b"e", None), (b"a", None)))
    store.commit(changing(FAILURES, (b"a", None), (b"a", b"5")))
    store.close()
    store = backend.place().open()
    assert of(store, FAILURES) == {b"a": b"5", b"c": b"3"}
    with store.snapshot() as snapshot:
        assert list(snapshot.keys(FAILURES)) == [b"a", b"c"]
        assert snapshot.entries(FAILURES) == 2
        assert bytes(snapshot.get(FAILURES, b"c") or b"") == b"3"
        assert snapshot.get(FAILURES, b"b") is None
        snapshot.expect_entries(FAILURES, 2)
        with pytest.raises(StoreDamagedError, match="2 failures records stand where 3"):
            snapshot.expect_entries(FAILURES, 3)
    store.close()


def test_many_records_are_in_order(store: Store) -> None:
    records = [(b"%05d" % n, bytes([n % 256]) * 9) for n in range(5_000)]
    shuffled = random.Random(1).sample(records, len(records))
    store.commit(changing(COOKIES, *shuffled))
    with store.snapshot() as snapshot:
        found = [(key, bytes(value)) for key, value in snapshot.records(COOKIES)]
    assert found == records
    store.commit(changing(COOKIES, *((key, None) for key, _ in records[1:])))
    assert of(store, COOKIES) == dict(records[:1])


def test_a_table_is_cleared_before_what_follows(store: Store) -> None:
    store.commit(changing(BLOCKS, (b"a", b"1"), (b"b", b"2")))

    more = changing(BLOCKS, (b"d", b"4"))
    more.cleared = [BLOCKS]
    store.commit(changing(BLOCKS, (b"c", b"3")), more)
    assert of(store, BLOCKS) == {b"d": b"4"}


def test_exact_keys(store: Store) -> None:
    one, two = b"1" * 16, b"2" * 16
    store.commit(changing(EXACT, (two, b""), (one, b"")))
    store.commit(changing(EXACT, (one, b"")))
    with store.snapshot() as snapshot:
        assert list(snapshot.keys(EXACT)) == [one, two]
        assert snapshot.stored(EXACT, one) is not None
        assert snapshot.stored(EXACT, b"3" * 16) is None
        snapshot.expect_entries(EXACT, 2)


@pytest.mark.parametrize("table", [FAILURES, QUEUE])
def test_a_value_that_was_changed_is_damaged(
    backend: Backend, store: Store, table: bytes
) -> None:
    put(store, {0: [QueueOrder().rank(0, 1, start=False)]})
    store.commit(changing(FAILURES, (b"a", b"1")))
    with store.snapshot() as snapshot:
        ((key, value),) = snapshot.values(table)
        damaged = bytes(value)[:-1] + b"?"
    store.close()
    backend.damage(table, key, damaged)
    with pytest.raises(StoreDamagedError, match="is damaged"):
        read_everything(backend)


def read_everything(backend: Backend) -> None:
    store = backend.place().open()
    try:
        with store.snapshot() as snapshot:
            for table in TABLES:
                list(snapshot.values(table))
    finally:
        store.close()


# Requests


def put(
    store: Store, queue: dict[int, list[bytes]], delayed: dict[float, str] | None = None
) -> None:
    """Store requests, by slot, and those that are delayed, by time."""
    few = {
        request_key(slot, rank): b"request %d %b" % (slot, rank)
        for slot, ranks in queue.items()
        for rank in ranks
    }
    items = {
        request_key(DELAYED, delayed_rank(due, 7)): delayed_value(
            slot, 1, b"delayed", start=False
        )
        for due, slot in (delayed or {}).items()
    }
    store.commit(Part(changes={QUEUE: few | items}))


RANKS = sorted(
    QueueOrder(fifo, fifo).rank(priority, sequence, start=start)
    for priority in (0, 1, -3, 55, 56, -57, 10**6, -(10**9), 10**30)
    for sequence, start, fifo in ((7, False, True), (8, True, True), (9, False, False))
)


@pytest.mark.parametrize("slot", [0, 5, 63, 64, 16_383, 16_384, 1 << 30])
def test_requests_of_a_slot_are_in_the_order_of_their_ranks(
    store: Store, slot: int
) -> None:
    around = {max(0, slot - 1): RANKS[:2], slot + 1: RANKS[3:5]}
    put(store, {**around, slot: random.Random(2).sample(RANKS, len(RANKS))})
    found, more = store.now.next_requests(slot, BEFORE_ALL, (), 256)
    assert found == [(rank, b"request %d %b" % (slot, rank)) for rank in RANKS]
    assert not more


def test_requests_come_in_portions(store: Store) -> None:
    put(store, {1: RANKS})
    but = set(RANKS[1:6])
    left = [rank for rank in RANKS if rank not in but]
    taken: list[bytes] = []
    more = True
    while more:
        after = taken[-1] if taken else BEFORE_ALL
        found, more = store.now.next_requests(1, after, but, 4)
        assert len(found) <= 4
        taken += [rank for rank, _ in found]
    assert taken == left
    assert store.now.next_requests(2, BEFORE_ALL, (), 4) == ([], False)


def test_large_requests_end_a_portion(store: Store) -> None:
    few = {request_key(0, rank): bytes(400_000) for rank in RANKS[:4]}
    store.commit(Part(changes={QUEUE: few}))
    found, more = store.now.next_requests(0, BEFORE_ALL, (), 256)
    assert (len(found), more) == (3, True)


def test_requests_are_removed(store: Store) -> None:
    put(store, {3: RANKS, 4: RANKS}, {1.0: "a", 2.0: "b"})
    gone = [request_key(3, rank) for rank in RANKS[::2]]
    gone.append(request_key(DELAYED, delayed_rank(1.0, 7)))
    store.commit(Part(changes={QUEUE: dict.fromkeys(gone)}))
    found, _ = store.now.next_requests(3, BEFORE_ALL, (), 256)
    assert [rank for rank, _ in found] == RANKS[1::2]
    assert len(store.now.next_requests(4, BEFORE_ALL, (), 256)[0]) == len(RANKS)
    found, _ = store.now.next_requests(DELAYED, BEFORE_ALL, (), 9)
    assert [due_of(rank) for rank, _ in found] == [2.0]


def test_delayed_requests_are_in_the_order_of_their_times(store: Store) -> None:
    times = {float(n): f"slot {n}" for n in range(250)}
    put(store, {}, times)
    taken: list[float] = []
    after, more, but = BEFORE_ALL, True, {delayed_rank(4.0, 7)}
    while more:
        found, more = store.now.next_requests(DELAYED, after, but, 99)
        taken += [due_of(rank) for rank, _ in found]
        after = found[-1][0]
    assert taken == [due for due in times if due != 4.0]


# With a filter and a frontier over it


def test_a_filter_that_grows_is_the_same_when_it_is_opened_again(
    backend: Backend,
) -> None:
    keys = [f"key {n}" for n in range(9_000)]
    with BloomFilter.open(backend.place(), 2_000, 1e-9) as seen:
        assert seen.update(keys) == len(keys)
    with BloomFilter.open(backend.place()) as seen:
        assert seen.layer_count > 1
        assert seen.update(keys) == 0
        assert len(seen) == len(keys)
        seen.clear()
        assert seen.update(keys) == len(keys)


def test_exact_keys_of_a_filter_are_never_wrong(backend: Backend) -> None:
    with BloomFilter.open(backend.place(), 100, exact=True) as seen:
        assert seen.add("a")
        seen.checkpoint()
        assert (seen.add("a"), seen.add("b")) == (False, True)
        take_everything_for_seen(seen)
        assert "d" not in seen
        assert seen.add("d")
    with BloomFilter.open(backend.place()) as seen:
        assert (seen.add("b"), seen.add("c")) == (False, True)


@pytest.mark.parametrize("table", [BLOCKS, JOURNAL, EXACT])
def test_a_filter_that_lacks_records_is_refused(backend: Backend, table: bytes) -> None:
    with BloomFilter.open(backend.place(), 100, exact=True) as seen:
        seen.add("a")
        seen.fold()
        seen.add("b")
    store = backend.place().open()
    store.commit(Part(cleared=[table]))
    store.close()
    with pytest.raises(StoreDamagedError, match=f"0 {table.decode()} records stand"):
        BloomFilter.open(backend.place())
