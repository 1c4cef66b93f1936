"""FailuresOnRedis: reads the failed requests of a shared crawl, again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.crawl.engines.on_redis.shared_failures import failure_of
from bloomdupe.jobs.view import FailedRequests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bloomdupe.crawl.leases.failure import Failure
    from bloomdupe.redis.frontier_reader import FrontierReader, PartitionState


class FailuresOnRedis:
    """Reads the failed requests of those partitions in which they have changed."""

    def __init__(self, reader: FrontierReader) -> None:
        self._reader = reader
        self._known: dict[int, tuple[int, list[Failure]]] = {}

    def read(self, states: Sequence[PartitionState]) -> FailedRequests:
        """Return those that were not retried since, latest first."""
        found: list[Failure] = []
        for one in states:
            changes, failures = self._known.get(one.number, (0, []))
            if changes != one.failing:
                stored = map(failure_of, self._reader.failures(one.number))
                failures = [failure for failure in stored if not failure.waiting]
                self._known[one.number] = one.failing, failures
            found += failures
        found.sort(key=lambda one: -one.time)
        return FailedRequests(found, sum(one.forgotten for one in states))
