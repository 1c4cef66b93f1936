"""Reports: carries out on the reactor the reports of the thread that talks to Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.state.failures import log_retried
from bloomdupe.crawl.state.rules import Rules
from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bloomdupe.crawl.engines.on_redis.going.shared_session import (
        SharedSession as Session,
    )
    from bloomdupe.crawl.engines.on_redis.requests.at_hand import AtHand
    from bloomdupe.crawl.engines.on_redis.requests.making_offers import MakingOffers
    from bloomdupe.crawl.engines.on_redis.requests.requests_in_memory import (
        RequestsInMemory,
    )
    from bloomdupe.crawl.engines.on_redis.shared_cookies import SharedCookies
    from bloomdupe.crawl.engines.on_redis.shared_failures import Retried
    from bloomdupe.crawl.engines.on_redis.shared_standing import SharedStanding
    from bloomdupe.crawl.engines.on_redis.worker_counts import WorkerCounts
    from bloomdupe.crawl.progress.history import Point
    from bloomdupe.crawl.state.rules import RulesInForce
    from bloomdupe.filter.bloom import BloomFilter
    from bloomdupe.redis.frontier_reader import LeftOver
    from bloomdupe.redis.partition import Offer, RedisLease
    from bloomdupe.redis.shared_frontier import SharedFrontier

__all__ = ["Reports"]

logger = logger_of(__name__)


class Reports:
    """Tells the parts of the engine on Redis: :class:`WorkerReports`."""

    def __init__(
        self,
        session: Session,
        frontier: SharedFrontier,
        seen: BloomFilter,
        *,
        at_hand: AtHand,
        offers: MakingOffers,
        in_memory: RequestsInMemory,
        standing: SharedStanding,
        counts: WorkerCounts,
        rules: RulesInForce,
        cookies: SharedCookies | None,
    ) -> None:
        self._session = session
        self._stats = session.stats
        self._frontier = frontier
        self._seen = seen
        self._at_hand = at_hand
        self._offers = offers
        self._in_memory = in_memory
        self._standing = standing
        self._counts = counts
        self._rules = rules
        self._cookies = cookies

    def handed_out(self, leases: Sequence[RedisLease]) -> None:
        """Take requests to work on."""
        self._standing.go_on()
        self._at_hand.take(leases)
        self._session.access.wake()

    def heard(self, news: Sequence[bytes]) -> None:
        """Apply the news of other workers, which are cookies."""
        if self._cookies is not None:
            self._cookies.take(news)

    def give_back(self, partitions: frozenset[int]) -> None:
        """Begin no more requests of partitions that other workers will get."""
        self._at_hand.give_back(partitions)

    def retried(self, retried: Retried) -> None:
        """Count and log the failed requests that are pending again."""
        self._stats.set_value("bloomdupe/retried_failures", retried.requests)
        if retried.failed:
            log_retried(retried.requests, retried.failed, retried.other)
        if retried.blocked:
            self._stats.inc_value("bloomdupe/dropped_blocked", retried.blocked)

    def ruled(self, rules: list[dict[str, Any]]) -> None:
        """Obey the rules that a user has changed."""
        before, self._rules.now = self._rules.now, Rules.of({"blocked": rules})
        self._rules.say(self._session.spider, before)

    def known(self, count: int) -> None:
        """Count duplicates of offers by this or another worker."""
        self._stats.inc_value("dupefilter/filtered", count)
        self._counts.known += count

    def judged(self, answers: Sequence[tuple[Offer, int]]) -> None:
        """See :meth:`MakingOffers.judged`."""
        self._offers.judged(answers)

    def answered(self, answers: Sequence[tuple[Any, bool]]) -> None:
        """Begin with requests that cannot be stored, unless they were done before."""
        self._in_memory.answered(answers)
        self._session.access.wake()

    def accepted(self, leases: Sequence[RedisLease], sure: bool) -> None:
        """See :meth:`RequestsInMemory.accepted`."""
        self._in_memory.accepted(leases, sure=sure)

    def refused(self, leases: Sequence[RedisLease]) -> None:
        """Count and log pages that were settled too late, and are done again."""
        self._in_memory.refused(leases)
        self._stats.inc_value("bloomdupe/refused_settlements", len(leases))
        logger.warning(
            "%(count)d pages were settled after their lease had run out: they are"
            " fetched again, and their items of this time do not count. Was the process"
            " stopped, or Redis away, for longer than BLOOMDUPE_REDIS_LEASE?",
            {"count": len(leases)},
            extra={"spider": self._session.spider},
        )

    def looked(self, point: Point) -> None:
        """Remember the state of the whole crawl."""
        self._standing.whole = point

    def finished(self, offered: int, left: LeftOver) -> None:
        """Let the crawl end, or sleep, because nothing but this is pending.

        Does nothing if this worker has offered requests since the look.
        """
        if self._standing.end(offered, left):
            self._session.access.wake()

    def asked_to_stop(self, over: bool) -> None:
        """Close the crawl; ``over`` says whether nothing is pending."""
        if not over:
            self._standing.go_on()
        self._session.stopping.stop()

    def interrupted(self) -> None:
        """Forget the seen requests, because Redis may have lost its last writes.

        The frontier repeats the offers of pages that this worker has not settled yet.
        But a page that was settled in the lost moment is done again, and its links must
        not be skipped then.
        """
        self._seen.clear()
        self._session.forget_links()

    def failed(self, error: BaseException) -> None:
        """Stop the crawl, because no request reaches Redis any more."""
        self._session.stopping.fail(error)
