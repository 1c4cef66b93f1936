"""How often a frontier that many workers share asks Redis: Redis counts the scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.redis.partition import Offer
from bloomdupe.redis.shared_frontier import SharedFrontier

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.redis_server import RedisServer

PARTITIONS = 32
LONG = 3_600.0
"""Seconds; no lease of this length runs out in a test."""


def scripts(server: RedisServer, call: Callable[[], object]) -> int:
    """Return how many scripts a call runs."""
    with server.client() as judge:
        before: Any = judge.info("commandstats")
        call()
        after: Any = judge.info("commandstats")
    calls: int = after["cmdstat_evalsha"]["calls"] - before["cmdstat_evalsha"]["calls"]
    return calls


def finished(frontier: SharedFrontier) -> bool:
    return frontier.finished


def test_waiting_for_others_costs_one_script(server: RedisServer, url: str) -> None:
    with (
        SharedFrontier.open(url, 1_000, partitions=PARTITIONS) as owner,
        SharedFrontier.open(url) as other,
    ):
        owner.tend()
        assert finished(other)
        owner.offer([Offer("host", b"1", b"")])
        assert not finished(other)
        assert scripts(server, lambda: finished(other)) == 1
        (lease,) = owner.lease(1)
        assert not finished(other)
        assert scripts(server, lambda: finished(other)) == 1
        owner.settle([(lease, [])])
        assert scripts(server, lambda: finished(other)) == 2 * PARTITIONS
        assert finished(other)


def test_what_comes_elsewhere_is_found(url: str) -> None:
    """Whatever partition had something last time, all are looked at before the end."""
    with SharedFrontier.open(url, 1_000, partitions=PARTITIONS) as frontier:
        frontier.tend()
        for number in range(2 * PARTITIONS):
            frontier.offer([Offer(f"host{number}", b"%d" % number, b"")])
            assert not finished(frontier)
            (lease,) = frontier.lease(1)
            assert not finished(frontier)
            frontier.settle([(lease, [])])
            frontier.ask_again(lease.slot)
            assert finished(frontier)


def test_a_look_around_costs_one_script(server: RedisServer, url: str) -> None:
    with SharedFrontier.open(
        url, 1_000, partitions=PARTITIONS, lease_seconds=LONG
    ) as one:
        one.tend()
        assert scripts(server, one.look_around) == 1
        one.offer([Offer("host", b"1", b"")])
        (lease,) = one.lease(1)
        with SharedFrontier.open(url, lease_seconds=LONG) as two:
            two.tend()
            assert scripts(server, one.look_around) > 1
            assert scripts(server, one.look_around) == 1
            assert one.leaving <= {lease.partition}
            # The other one looks for its share less and less often.
            looks = [scripts(server, two.look_around) for _ in range(50)]
            assert sum(found > 1 for found in looks) <= 5
