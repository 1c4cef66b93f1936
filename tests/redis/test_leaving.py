"""Requests that a worker leaves, relies on, or must not take from another worker."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.redis_server import LOGGED, RedisServer

from bloomdupe.errors import StoreUnreachableError
from bloomdupe.redis.frontier_reader import LeftOver
from bloomdupe.redis.owner import owning_frontier
from bloomdupe.redis.partition import Offer, RedisLease, SeenMark, Settled
from bloomdupe.redis.shared_frontier import SharedFrontier

LONG = 3_600.0
"""Seconds; no lease of this length runs out in a test."""
PARTITIONS = 4


def opened(url: str) -> SharedFrontier:
    return SharedFrontier.open(url, 1_000, partitions=PARTITIONS, lease_seconds=LONG)


def pair(url: str) -> tuple[SharedFrontier, SharedFrontier]:
    """Return two workers, each with half of the partitions."""
    one, two = opened(url), opened(url)
    for worker in (one, two, one, two):
        worker.tend()
    assert len(one.owned) == len(two.owned) == PARTITIONS // 2
    return one, two


def offers(count: int) -> list[Offer]:
    return [Offer(f"host{n}", b"%d" % n, b"request %d" % n) for n in range(count)]


def lines(frontier: SharedFrontier) -> list[bytes]:
    return sorted(output.line for output in frontier.outputs())


def test_slots_take_turns_when_no_request_is_in_progress(url: str) -> None:
    """No other worker asks again; without this the request would wait for ever."""
    with opened(url) as one:
        one.tend()
        one.offer([Offer("host", b"%d" % n, b"") for n in range(6)])
        first = one.lease(100, of_each=2)
        assert len(first) == 2
        assert one.lease(100) == []
        one.settle([(first[0], [])])
        assert one.lease(100) == []
        one.settle([Settled(first[1], left=b"")])
        assert len(one.lease(100)) == 4


def test_requests_that_two_workers_left_keep_neither_running(url: str) -> None:
    one, two = pair(url)
    with one, two:
        one.offer(offers(20))
        held = {worker: worker.lease(100) for worker in (one, two)}
        for worker, leases in held.items():
            assert leases
            worker.settle([(lease, [b"done"]) for lease in leases[1:]])
            assert worker.left_over() is None
        for worker, leases in held.items():
            worker.settle([Settled(leases[0], [b"put out"], left=b"as it is now")])
        for worker in held:
            assert worker.left_over() == LeftOver(2)
            assert not worker.finished
        assert lines(one) == [b"done"] * 18 + [b"put out"] * 2
        one.close()
        assert two.left_over() is None
        two.tend()
        [again] = two.lease(100)
        assert (again.slot, again.payload) == (held[one][0].slot, b"as it is now")
        two.settle([(again, [])])
        assert two.left_over() == LeftOver(1)


def test_requests_of_a_worker_that_is_ending_keep_the_others_running(url: str) -> None:
    one, two = pair(url)
    with one, two:
        one.offer(offers(20))
        held = one.lease(100)
        two.settle([(lease, []) for lease in two.lease(100)])
        one.settle([(lease, []) for lease in held[1:]])
        one.settle([Settled(held[0], left=b"as it is now", is_ending=True)])
        assert two.left_over() is None
        one.close()
        two.tend()
        [again] = two.lease(100)
        assert again.payload == b"as it is now"


def test_left_requests_do_not_keep_a_partition(url: str) -> None:
    with opened(url) as one, opened(url) as two:
        one.tend()
        one.offer(offers(20))
        held = one.lease(100)
        two.tend()
        one.tend()
        assert len(one.owned) == PARTITIONS
        one.settle(Settled(lease, left=lease.payload) for lease in held)
        assert len(one.owned) == PARTITIONS // 2
        two.tend()
        again = two.lease(100)
        assert {lease.payload for lease in again} < {lease.payload for lease in held}
        one.settle(Settled(lease, [b"too late"], left=b"too late") for lease in held)
        assert lines(two) == []


def of_other_partition(leases: list[RedisLease], than: RedisLease) -> RedisLease:
    return next(lease for lease in leases if lease.partition != than.partition)


@pytest.mark.parametrize("lost", [False, True])
def test_requests_that_rely_on_a_lost_request_are_pending_again(
    url: str, *, lost: bool
) -> None:
    with opened(url) as one:
        one.tend()
        one.offer(offers(20))
        held = one.lease(100)
        carrier = held[0]
        other = of_other_partition(held, carrier)
        mark = SeenMark("elsewhere", b"in memory")
        assert one.knows([mark, SeenMark("host1", b"1")]) == [False, True]
        if lost:
            partition = one._owned[carrier.partition]
            partition.server.run("renew", one.worker, partition.fence, 0)
        relies = Settled(other, [b"line"], relies=[carrier])
        assert one.settle([relies]) == ([other] if lost else [])
        assert lines(one) == ([] if lost else [b"line"])
        done = one.settle([Settled(carrier, marks=[mark])])
        assert done == ([carrier] if lost else [])
        assert one.knows([mark]) == [not lost]
        one.ask_again(other.slot)
        again = [lease.payload for lease in one.lease(100)]
        assert again == ([other.payload] if lost else [])


def test_no_worker_loses_its_lease_after_redis_was_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leases end by Redis' clock, while no worker can renew them."""
    later = 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + later, time=time.time)
    monkeypatch.setattr(owning_frontier, "time", clock)
    with RedisServer(tmp_path, *LOGGED) as server:
        one, two = pair(server.url("crawl"))
        with one, two:
            one.offer(offers(40))
            held = two.lease(100)
            assert held
            server.kill()
            server.start()
            later += 2 * LONG
            server.end_leases("crawl")
            for worker in (one, two):
                with pytest.raises(StoreUnreachableError):
                    worker.tend()
            one.tend()
            assert len(one.owned) == PARTITIONS // 2
            two.tend()
            assert two.settle([(lease, []) for lease in held]) == []
            later += 2 * LONG
            server.end_leases("crawl")
            one.tend()
            assert len(one.owned) == PARTITIONS  # for the other worker did not renew
