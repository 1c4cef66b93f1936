"""WorkerReports: the reports of the thread that talks to Redis to the reactor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bloomdupe.crawl.engines.on_redis.shared_failures import Retried
    from bloomdupe.crawl.progress.history import Point
    from bloomdupe.redis.frontier_reader import LeftOver
    from bloomdupe.redis.partition import Offer, RedisLease

    InMemory = Any
    """A request that cannot be stored, as the crawl knows it."""

__all__ = ["WorkerReports"]


class WorkerReports(Protocol):
    """Receives the reports of a worker, always on the thread of the reactor."""

    def handed_out(self, leases: Sequence[RedisLease]) -> None:
        """Take requests to work on."""

    def retried(self, retried: Retried) -> None:
        """Log the failed requests that are pending again."""

    def known(self, count: int) -> None:
        """Count so many of the offers as duplicates."""

    def judged(self, answers: Sequence[tuple[Offer, int]]) -> None:
        """Count the requests that are refused, because their slots have no room."""

    def heard(self, news: Sequence[bytes]) -> None:
        """Apply the news of other workers, which are cookies."""

    def ruled(self, rules: list[dict[str, Any]]) -> None:
        """Obey these rules of ``bloomdupe block`` from now on."""

    def answered(self, answers: Sequence[tuple[InMemory, bool]]) -> None:
        """Begin requests, or drop them if they count as seen."""

    def accepted(self, leases: Sequence[RedisLease], sure: bool) -> None:
        """Treat the marked requests of these pages as duplicates from now on."""

    def give_back(self, partitions: frozenset[int]) -> None:
        """Begin no more requests of partitions that other workers will get."""

    def refused(self, leases: Sequence[RedisLease]) -> None:
        """Give these pages up: other workers do them, and their output is refused."""

    def looked(self, point: Point) -> None:
        """Remember the state of the whole crawl."""

    def finished(self, offered: int, left: LeftOver) -> None:
        """End the crawl, unless more was offered: nothing else is pending."""

    def asked_to_stop(self, over: bool) -> None:
        """Close the crawl; ``over`` says that nothing is pending."""

    def interrupted(self) -> None:
        """Forget the seen requests, because Redis may have lost some of the offers."""

    def failed(self, error: BaseException) -> None:
        """Stop the crawl because of an error."""
