"""How often a frontier that many workers share asks Redis, and how many scripts run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from support.redis_server import RedisServer

from bloomdupe.errors import StoreFullError, StoreUnreachableError
from bloomdupe.redis.owner import owning_frontier
from bloomdupe.redis.partition import Offer, SeenMark, Settled
from bloomdupe.redis.shared_frontier import SharedFrontier

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


def links(first: int, count: int) -> list[Offer]:
    """Return requests on so many hosts."""
    numbers = range(first, first + count)
    return [Offer(f"host{n}", b"%d" % n, b"%d" % n) for n in numbers]


def test_all_partitions_share_a_round_trip(
    url: str, trips: Callable[[Callable[[], object]], int]
) -> None:
    marks = [SeenMark(f"host{n}", b"mark %d" % n) for n in range(200)]
    with SharedFrontier.open(url, 1_000, partitions=PARTITIONS) as one:
        one.tend()
        one.offer(links(0, 200))  # now Redis knows the scripts
        one.mark_seen(marks)
        assert one.knows(marks) == [True] * 200
        one.counts()
        assert trips(lambda: one.offer(links(200, 200))) == 1
        assert trips(lambda: one.mark_seen(marks)) == 1
        assert trips(lambda: one.knows(marks)) == 1
        assert trips(one.counts) == 1
        # The worker is there; the leases; which partitions are free.
        assert trips(one.tend) <= 3
        held = one.lease(200)
        assert len(held) == 200
        assert len({lease.partition for lease in held}) > PARTITIONS // 2
        one.settle([(held[0], [])])
        assert trips(lambda: one.settle((lease, []) for lease in held[1:])) == 1
        # Few partitions are asked first, and then twice as many.
        assert trips(lambda: held.extend(one.lease(200))) <= 8
        assert len(held) == 400
        one.lease(1)
        # All have shown that they have nothing left.
        assert trips(lambda: one.lease(64, everywhere=False)) == 0
        assert trips(lambda: one.lease(64)) == 1


def test_scripts_that_redis_has_forgotten(server: RedisServer, url: str) -> None:
    with SharedFrontier.open(url, 1_000, partitions=PARTITIONS) as one:
        one.tend()
        with server.client() as other:
            other.script_flush()
            assert one.offer(links(0, 50) + links(0, 50)) == [1] * 50 + [0] * 50
            other.script_flush()
            held = one.lease(50)
            other.script_flush()
            assert one.settle((lease, [b"line"]) for lease in held) == []
        assert sum(counts.done for counts in one.counts()) == len(held) == 50


def test_scripts_that_redis_forgets_before_they_are_called_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A worker waits then, as for a Redis that is away.
    with SharedFrontier.open(url, 1_000, partitions=PARTITIONS) as one:
        one.tend()
        client: Any = one._server._client
        load = client.script_load

        def load_in_vain(script: str) -> None:
            load(script)
            client.script_flush()

        client.script_flush()
        with monkeypatch.context() as patch:
            patch.setattr(client, "script_load", load_in_vain)
            with pytest.raises(StoreUnreachableError, match="No matching script"):
                one.offer(links(0, 50))
        assert one.offer(links(0, 50)) == [1] * 50


@contextmanager
def full(server: RedisServer) -> Iterator[None]:
    with server.client() as other:
        other.config_set("maxmemory", 1)
        try:
            yield
        finally:
            other.config_set("maxmemory", 0)


def test_a_refusal_of_all_is_repeated(server: RedisServer, url: str) -> None:
    """None of many scripts is done twice, and none is left out."""
    with SharedFrontier.open(url, 1_000, partitions=PARTITIONS) as one:
        one.tend()
        with full(server), pytest.raises(StoreFullError):
            one.offer(links(0, 50))
        assert one.offer(links(0, 50)) == [1] * 50
        with full(server), pytest.raises(StoreFullError):
            one.lease(50)
        held = one.lease(50)
        assert sorted(int(lease.payload) for lease in held) == list(range(50))
        with full(server), pytest.raises(StoreFullError):
            one.settle((lease, [lease.payload]) for lease in held)
        assert one.settle((lease, [lease.payload]) for lease in held) == []
        lines = [int(output.line) for output in one.outputs()]
        assert sorted(lines) == list(range(50))


def test_a_turn_goes_on(url: str) -> None:
    """A slot that was cut short gets the rest of its turn, and not more."""
    requests = [Offer("host", b"%d" % n, b"") for n in range(20)]
    with SharedFrontier.open(url, 1_000, partitions=1) as one:
        one.tend()
        one.offer(requests)
        assert [len(one.lease(count, 8)) for count in (3, 3, 3, 3)] == [3, 3, 2, 0]
        one.ask_again("host")
        assert len(one.lease(20, 8)) == 8


def test_an_empty_partition_is_asked_when_a_request_is_offered(url: str) -> None:
    with (
        SharedFrontier.open(url, 1_000, partitions=1) as one,
        SharedFrontier.open(url) as other,
    ):
        one.tend()
        assert one.lease(1) == []
        other.offer(links(0, 1))
        assert one.lease(1, everywhere=False) == []
        (lease,) = one.lease(2)
        assert one.lease(1, everywhere=False) == []
        one.offer([Offer("host1", b"more", b"")])
        (more,) = one.lease(1, everywhere=False)
        assert one.lease(1, everywhere=False) == []
        one.settle([Settled(more, instead=[Offer("host2", b"instead", b"")])])
        assert len(one.lease(1, everywhere=False)) == 1
        one.settle([(lease, [])])


def finished(frontier: SharedFrontier) -> bool:
    return frontier.finished


def test_waiting_for_other_workers_costs_one_script(
    server: RedisServer, url: str
) -> None:
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
        assert scripts(server, lambda: finished(other)) == 1
        assert finished(other)


def test_requests_in_other_partitions_are_found(url: str) -> None:
    """All partitions are asked before the end, not only the last successful one."""
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


def test_a_look_around_costs_one_script(
    server: RedisServer, url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    clock = SimpleNamespace(monotonic=lambda: now, time=time.time)
    monkeypatch.setattr(owning_frontier, "time", clock)
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
            assert one.returning <= {lease.partition}
            # Without the first, the other one looks less and less often for partitions
            # that are given back; those of which a lease runs out are for later.
            server.end_leases(name, one.worker)
            looks = []
            for _ in range(64):
                now += owning_frontier.PAUSE
                looks.append(scripts(server, two.look_around) > 1)
            looked = [place for place, found in enumerate(looks) if found]
            assert looked == [0, 1, 2, 4, 8, 16, 32]
