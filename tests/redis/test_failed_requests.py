"""Failed requests of a shared frontier: settled with their requests, and exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import pytest

from bloomdupe.errors import StoreUnreachableError
from bloomdupe.redis.open_frontier import _level
from bloomdupe.redis.partition import Offer, RedisLease, Settled
from bloomdupe.redis.server import Call
from bloomdupe.redis.settled.failed_requests import (
    NOT_PENDING,
    FailedRequest,
    StoredFailure,
)
from bloomdupe.redis.shared_frontier import SharedFrontier

LONG = 3_600.0
"""Seconds; no lease of this length runs out in a test."""


def opened(url: str) -> SharedFrontier:
    frontier = SharedFrontier.open(url, 1_000, partitions=1, lease_seconds=LONG)
    frontier.tend()
    return frontier


def key(number: int) -> bytes:
    return b"mark %03d" % number + b"the rest of it"


def failed(number: int, most: int = 10) -> FailedRequest:
    return FailedRequest(key(number), b"why %d" % number, most)


def leased(frontier: SharedFrontier, *numbers: int) -> list[RedisLease]:
    frontier.offer([Offer(f"host{n}", b"%d" % n, b"%d" % n) for n in numbers])
    return frontier.lease(len(numbers))


def stored(frontier: SharedFrontier) -> dict[bytes, tuple[int, bool, bytes]]:
    return {one.key: one[2:] for one in frontier.failures()}


def again(one: StoredFailure) -> tuple[StoredFailure, Offer]:
    return one, Offer("host", b"", b"again")


def test_a_failure_is_stored_with_the_settlement_and_removed_with_another(
    url: str,
) -> None:
    with opened(url) as one:
        for lease, times in zip(leased(one, 1, 2), (1, 2), strict=True):
            one.settle([Settled(lease, failed=failed(7))])
            assert stored(one) == {key(7): (times, False, b"why 7")}
        (lease,) = leased(one, 3)
        assert one.may_have_failed(lease, key(7)[:8])
        assert not one.may_have_failed(lease, key(8)[:8])
        one.settle([Settled(lease, failed=FailedRequest(key(7), b"", 10))])
        assert stored(one) == {}
        assert not one.may_have_failed(lease, key(7)[:8])
    with opened(url) as two:
        (lease,) = leased(two, 4)
        assert not two.may_have_failed(lease, key(7)[:8])


def test_the_oldest_failures_are_removed_and_the_owner_knows(url: str) -> None:
    with opened(url) as one:
        leases = leased(one, *range(5))
        one.settle(
            [Settled(lease, failed=failed(n, 10)) for n, lease in enumerate(leases)]
        )
        (lease,) = leased(one, 5)
        one.settle([Settled(lease, failed=failed(0, 3))])
        assert stored(one).keys() == {key(3), key(4), key(0)}
        there = [one.may_have_failed(lease, key(n)[:8]) for n in range(5)]
        assert there == [True, False, False, True, True]
    with opened(url) as two:  # knows the same from its first moment
        (lease,) = leased(two, 6)
        assert there == [two.may_have_failed(lease, key(n)[:8]) for n in range(5)]


def test_a_failed_request_is_pending_again_once(url: str) -> None:
    with opened(url) as one:
        (lease,) = leased(one, 1)
        one.settle([Settled(lease, failed=failed(1))])
        (before,) = one.failures()
        assert one.requeue([again(before)]) == 1
        assert one.requeue([again(before)]) == 0  # the answer was lost, say
        assert stored(one) == {key(1): (1, True, b"why 1")}
        (lease,) = one.lease(10)
        assert lease.payload == b"again"
        one.settle([Settled(lease, failed=failed(1))])
        assert one.requeue([again(before)]) == 0  # it has failed again since
        (now,) = one.failures()
        assert (now.times, now.waiting) == (2, False)
        assert one.requeue([again(now)]) == 1
        (lease,) = one.lease(10)
        one.settle([Settled(lease, failed=FailedRequest(key(1), b"", 10))])
        assert one.requeue([again(now)]) == 0  # it has succeeded
        assert one.finished
        assert one.counts()[0].pushed == one.counts()[0].done == 3


def test_a_failed_request_is_listed_again_when_its_repetition_is_given_up(
    url: str,
) -> None:
    with opened(url) as one:
        (lease,) = leased(one, 1)
        one.settle([Settled(lease, failed=failed(1))])
        one.requeue([again(*one.failures())])
        (lease,) = one.lease(10)
        given_up = FailedRequest(key(1), NOT_PENDING, 10)
        one.settle([Settled(lease, failed=given_up)])
        assert stored(one) == {key(1): (1, False, b"why 1")}
        assert one.may_have_failed(lease, key(1)[:8])
        (lease,) = leased(one, 2)
        one.settle([Settled(lease, failed=FailedRequest(key(2), NOT_PENDING, 10))])
        assert stored(one).keys() == {key(1)}


def test_a_failure_whose_answer_was_lost_counts_once(url: str) -> None:
    with opened(url) as one:
        (lease,) = leased(one, 1)
        done = [Settled(lease, [b"a line"], failed=failed(1))]
        ask = one._server.ask

        def lose(calls: Sequence[Call]) -> NoReturn:
            ask(calls)
            raise StoreUnreachableError("lost")

        one._server.ask = lose  # type: ignore[method-assign]
        with pytest.raises(StoreUnreachableError):
            one.settle(done)
        one._server.ask = ask  # type: ignore[method-assign]
        assert one.settle(done) == []
        assert stored(one) == {key(1): (1, False, b"why 1")}
        assert one.may_have_failed(lease, key(1)[:8])
        assert [output.line for output in one.outputs()] == [b"a line"]


def test_a_refused_settlement_stores_no_failure(url: str) -> None:
    with opened(url) as one:
        (lease,) = leased(one, 1)
        with SharedFrontier.open(url, lease_seconds=LONG) as two:
            assert two._parts[0].run("take", one.worker, 1_000_000, "another fence", 1)[
                0
            ]
        assert one.settle([Settled(lease, failed=failed(1))]) == [lease]
        assert stored(one) == {}


def test_all_partitions_together_keep_so_many_failures(url: str) -> None:
    most = 10
    with SharedFrontier.open(url, 1_000, partitions=8, lease_seconds=LONG) as one:
        one.tend()

        def fail(numbers: range) -> list[int]:
            done = zip(leased(one, *numbers), numbers, strict=True)
            one.settle([Settled(lease, failed=failed(n, most)) for lease, n in done])
            return [counts.failed for counts in one.states()]

        counts = fail(range(most))
        one.trim_failures(counts, most)  # exactly the limit
        assert len(stored(one)) == most
        counts = fail(range(most, 40))
        assert sum(counts) > most
        for _ in range(2):  # two workers have looked at the same time
            one.trim_failures(counts, most)
            found = stored(one)
            assert len(found) == most
        numbers = sorted(int(key.split()[1][:3]) for key in found)
        assert numbers[0] > most  # the oldest are gone
        (lease,) = leased(one, 50)
        one.settle([Settled(lease, failed=failed(50, most))])
        assert key(50) in stored(one)


@pytest.mark.parametrize(
    ("counts", "most", "kept"),
    [
        ([5], 3, [3]), ([3, 1, 9], 8, [3, 1, 4]), ([4, 4, 4], 10, [4, 3, 3]),
        ([0, 0, 7], 7, [0, 0, 7]), ([2, 2, 2], 1, [1, 0, 0]),
    ],
)  # fmt: skip
def test_the_partitions_with_the_most_failures_lose_some(
    counts: list[int], most: int, kept: list[int]
) -> None:
    assert _level(counts, most) == kept
