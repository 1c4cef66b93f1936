"""SharedFailures: failed requests of a worker, settled with their pages."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.crawl.engines.on_redis.going.middleware_values import MiddlewareValues
from bloomdupe.crawl.engines.on_redis.going.names import name_of
from bloomdupe.crawl.engines.on_redis.messages import (
    REQUEST,
    START_PAGE,
    message_of,
    payload_of,
    with_answers,
)
from bloomdupe.crawl.leases.failure import Failure, mark_of, to_retry
from bloomdupe.crawl.leases.reasons import FailureReason
from bloomdupe.redis.partition import Offer, SeenMark
from bloomdupe.redis.settled.failed_requests import (
    MARK_BYTES,
    NOT_PENDING,
    FailedRequest,
    StoredFailure,
)

if TYPE_CHECKING:
    from scrapy import Request

    from bloomdupe.crawl.engines.on_redis.going.shared_lease import SharedLease as Lease
    from bloomdupe.crawl.engines.on_redis.going.shared_session import SharedRecords
    from bloomdupe.crawl.engines.on_redis.requests.page_on_redis import PageOnRedis
    from bloomdupe.crawl.state.rules import Rules
    from bloomdupe.redis.partition import RedisLease
    from bloomdupe.redis.shared_frontier import SharedFrontier

__all__ = [
    "Retried",
    "SharedFailures",
    "as_in_a_store",
    "failure_of",
    "repetition_of",
]

MOST_RECENT = 10_000
"""Failures of this worker that are remembered here. Redis knows them by then."""


def failure_of(stored: StoredFailure) -> Failure:
    """Return a failed request as Redis stores it."""
    failure = Failure.unpacked(stored.record)
    return failure._replace(times=stored.times, waiting=stored.waiting)


def as_in_a_store(stored: StoredFailure) -> tuple[bytes, Failure]:
    """Return the digest of a failed request, and the request as a store has it."""
    failure = failure_of(stored)
    if failure.payload is not None:
        failure = failure._replace(payload=message_of(failure.payload).body)
    return stored.key[MARK_BYTES:], failure


def repetition_of(failure: Failure) -> Offer:
    """Return the request that repeats a failed request, which was stored."""
    assert failure.payload is not None  # noqa: S101 - the caller has looked
    return Offer(failure.slot, b"", failure.payload, failure.priority)


class Retried(NamedTuple):
    """The failed requests that a worker has made pending again when it began."""

    requests: int
    failed: int
    """Failed requests of all workers."""
    blocked: int
    """Those that it has not made pending because of a rule of the user."""
    other: Counter[str]
    """Those that it has not made pending because of their reasons, by reason."""


class SharedFailures:
    """Finds the change to the failed requests on Redis when a request ends.

    A partition keeps the failed requests of its slots, ``limit`` at most, and after
    each look of a worker all partitions together have so many: see
    :mod:`bloomdupe.crawl.engines.on_redis.shared_look`. The counts are those of this
    worker.
    """

    def __init__(
        self, records: SharedRecords, frontier: SharedFrontier, limit: int
    ) -> None:
        self._records = records
        self._frontier = frontier
        self._limit = limit
        self._options = Counter[str]()
        self._recent: dict[bytes, None] = {}
        """Marks of URLs; perhaps their failures are on their way to Redis."""

    def __len__(self) -> int:
        """Return the number of requests that have failed here."""
        return self._options.total()

    @property
    def by_reason(self) -> dict[str, int]:
        """Number of these by reason, the largest first."""
        return dict(self._options.most_common())

    def ended(self, lease: Lease) -> FailedRequest | None:
        """Return the change for a request that has ended, if it makes one."""
        page: PageOnRedis = lease.own
        request = lease.request
        mark = mark_of(request.url)
        if lease.failed is not None:
            failure = self._records.of(
                request,
                lease.failed,
                lease.entry.queue.name,
                self._repetition(lease, page),
            )
            self._options[failure.option] += 1
            self._recent.pop(mark, None)
            self._recent[mark] = None
            if len(self._recent) > MOST_RECENT:
                del self._recent[next(iter(self._recent))]
            record = failure.packed()
        elif lease.retried or not self._may_have_failed(mark, lease):
            return None
        else:
            record = b""
        key = mark + self._records.key_of(request, lease.middleware_values)
        return FailedRequest(key, record, self._limit)

    def given_up(self, request: Request, lease: RedisLease, why: str) -> FailedRequest:
        """Return the change for a request that is set aside for its losses."""
        reason = FailureReason("lost", None, why)
        failure = self._records.of(request, reason, lease.slot, None)
        self._options[failure.option] += 1
        key = self._records.key_of(request, MiddlewareValues(request))
        return FailedRequest(mark_of(request.url) + key, failure.packed(), self._limit)

    def kept_out(self, request: Request, lease: RedisLease) -> FailedRequest | None:
        """Return the change for a request that a rule keeps out, if it makes one.

        If it repeats a failed request, that request is not pending any more.
        """
        mark = mark_of(request.url)
        if not self._frontier.may_have_failed(lease, mark):
            return None
        key = mark + self._records.key_of(request, MiddlewareValues(request))
        return FailedRequest(key, NOT_PENDING, self._limit)

    def retry(self, reasons: tuple[str, ...], rules: Rules) -> Retried:
        """Make requests pending again that failed for these reasons, on any worker.

        Those that the ``rules`` keep out are left.
        """
        stored = [(one, failure_of(one)) for one in self._frontier.failures()]
        other = Counter[str]()
        found = list(to_retry(stored, reasons, other))
        wanted = [
            (one, repetition_of(failure))
            for one, failure in found
            if not rules.keep_out(failure.slot, failure.url)
        ]
        blocked = len(found) - len(wanted)
        return Retried(self._frontier.requeue(wanted), len(stored), blocked, other)

    def count(self) -> dict[str, int]:
        """Count the failed requests of all workers by reason, the largest first."""
        found = (failure_of(one).option for one in self._frontier.failures())
        return dict(Counter(found).most_common())

    def _may_have_failed(self, mark: bytes, lease: Lease) -> bool:
        if mark in self._recent:
            return True
        page: PageOnRedis = lease.own
        place = page.lease or SeenMark(lease.entry.queue.name, page.name)
        return self._frontier.may_have_failed(place, mark)

    def _repetition(self, lease: Lease, page: PageOnRedis) -> bytes | None:
        """Return the message of a repetition, which has a name of its own.

        So everything that it yields is new, unlike after a crash, except for items of a
        callback that was cut short.
        """
        payload = self._records.untried(lease)
        if payload is None:
            return None
        kind = START_PAGE if page.is_start else REQUEST
        payload = payload_of(kind, name_of(b"failed", page.name), payload)
        return with_answers(payload, lease.items_left)
