"""Slots of a shared frontier: their states, and the distribution of their requests."""

from __future__ import annotations

import json
import math
from typing import Any

from support.redis_server import RedisServer

from bloomdupe.redis.frontier_reader import FrontierReader
from bloomdupe.redis.partition import AboutSlot, Offer, Settled
from bloomdupe.redis.shared_frontier import SharedFrontier

LONG = 3_600.0
"""Seconds; no lease of this length runs out in a test."""


def open_one(url: str, partitions: int = 1) -> SharedFrontier:
    frontier = SharedFrontier.open(
        url, 10_000, partitions=partitions, lease_seconds=LONG
    )
    frontier.tend()
    return frontier


def offers(*numbers: int, slot: str = "a") -> list[Offer]:
    return [Offer(slot, b"%a %d" % (slot, n), b"%d" % n) for n in numbers]


def stored(url: str) -> dict[str, Any]:
    with FrontierReader.open(url) as reader:
        return reader.slot_states(0)


def partition_key(url: str, name: str) -> str:
    job = url.rpartition("#")[2].replace("%20", " ")
    return f"bloomdupe:{{{job}}}:0:{name}"


def partition_field(server: RedisServer, url: str, field: str) -> object:
    with server.client() as client:
        return client.hget(partition_key(url, "state"), field)


def state(value: int, slot: str = "a", seconds: float = math.inf) -> AboutSlot:
    return AboutSlot(slot, json.dumps(value).encode(), seconds)


def test_a_state_goes_with_its_slot(url: str, server: RedisServer) -> None:
    with open_one(url) as one:
        one.offer(offers(1, 2, 3) + offers(4, 5, slot="b"))
        leases = one.lease(5)
        first, second, *others = (lease for lease in leases if lease.slot == "a")
        one.settle([Settled(first, about=state(1)), Settled(second, about=state(2))])
        assert stored(url) == {"a": 2}
        one.close([*others, *(lease for lease in leases if lease.slot == "b")])
    with open_one(url) as two:
        found = two.lease(3)
        # With the first request of the slot, and with no other.
        assert {lease.slot: lease.about for lease in found} == {"a": b"2", "b": b""}
        assert two.last_owner_until(found[0]) is None  # all times are known
        left = next(lease for lease in found if lease.slot == "a")
        two.settle([Settled(left, about=state(3), left=left.payload)])
        assert stored(url) == {"a": 3}
    with open_one(url) as three:
        # The last one had begun other requests, of which nothing is known.
        (lease,) = three.lease(1)
        assert three.last_owner_until(lease) is not None
        unknown = partition_field(server, url, "unknown")
        three.close([lease])
    with open_one(url) as four:
        assert four.last_owner_until(four.lease(1)[0]) is not None
        # It has to wait no longer for that.
        assert partition_field(server, url, "unknown") == unknown


def test_a_state_ends_with_the_requests_of_its_slot(url: str) -> None:
    with open_one(url) as one:
        one.offer(offers(1, 2))
        (lease,) = one.lease(1, 1)
        one.settle([Settled(lease, about=state(1, seconds=0))])
        assert stored(url) == {"a": 1}  # another request is pending
        one.ask_again("a")
        (lease,) = one.lease(1)
        one.settle([Settled(lease, about=state(2, seconds=0))])
        assert stored(url) == {}


def test_a_state_in_force_outlives_the_requests_of_its_slot(url: str) -> None:
    with open_one(url) as one:
        for slot in "abc":
            one.offer(offers(1, slot=slot))
            (lease,) = one.lease(1)
            one.settle([Settled(lease, about=state(1, slot, seconds=LONG))])
        assert stored(url) == {"a": 1, "b": 1, "c": 1}
        one.offer(offers(2, slot="b"))
        (lease,) = one.lease(1)
        assert lease.about == b"1"
        one.settle([Settled(lease, about=AboutSlot("b", b"", math.inf))])
        assert stored(url) == {"a": 1, "c": 1}


def test_states_whose_time_has_come_are_dropped(url: str, server: RedisServer) -> None:
    with open_one(url) as one:
        for number in range(40):
            slot = f"host{number}"
            one.offer(offers(1, slot=slot))
            (lease,) = one.lease(1)
            one.settle([Settled(lease, about=state(1, slot, seconds=LONG))])
        with server.client() as client:  # an hour later
            key = partition_key(url, "about:ends")
            client.zadd(key, dict.fromkeys(client.zrange(key, 0, -1), 1))
        for number in range(20):
            one.offer(offers(2, slot=f"host{number}"))
            (lease,) = one.lease(1)
            new = state(2, lease.slot, seconds=LONG)
            one.settle([Settled(lease, about=new)])
        assert stored(url) == {f"host{number}": 2 for number in range(20)}


def test_a_worker_that_joins_gets_its_part_of_the_work(url: str) -> None:
    """Few partitions have requests: they are shared, and not only their number."""
    with open_one(url, partitions=32) as one:
        one.offer([Offer(f"host{n}", b"%d" % n, b"") for n in range(6)])
        with SharedFrontier.open(url, lease_seconds=LONG) as two:
            two.tend()
            one.look_around()
            two.tend()
            assert len(one.owned) == len(two.owned) == 16
            assert len(one.lease(6)) == len(two.lease(6)) == 3
