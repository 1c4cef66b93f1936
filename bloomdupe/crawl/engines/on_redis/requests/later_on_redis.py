"""LaterOnRedis: requests scheduled for later, and pages that are visited again."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.engines.on_redis.going.names import name_of
from bloomdupe.crawl.engines.on_redis.messages import REQUEST, payload_of
from bloomdupe.crawl.later.revisits import Revisits
from bloomdupe.redis.partition import Offer, SeenMark

if TYPE_CHECKING:
    from bloomdupe.crawl.engines.on_redis.going.shared_lease import SharedLease as Lease
    from bloomdupe.crawl.engines.on_redis.going.shared_session import (
        SharedSession as Session,
    )
    from bloomdupe.crawl.engines.on_redis.requests.page_on_redis import PageOnRedis
    from bloomdupe.crawl.later.revisits import NextVisit
    from bloomdupe.redis.frontier_reader import LeftOver
    from bloomdupe.redis.shared_frontier import SharedFrontier

__all__ = ["LaterOnRedis"]


class LaterOnRedis:
    """A worker's part in requests for later, which Redis keeps and hands out.

    The worker knows how many there are only when nothing else is pending.
    """

    def __init__(
        self,
        session: Session,
        frontier: SharedFrontier,
    ) -> None:
        self._session = session
        self._stats = session.stats
        self._frontier = frontier
        self.waiting = 0
        """Requests scheduled for later, on any worker, at the last look."""
        self.next_due = math.inf
        """Unix time at which the first of them is due."""
        schedule: Any = self._schedule_visit
        self.revisits = Revisits(session, schedule)

    def found(self, left: LeftOver) -> None:
        """Take the result of a look."""
        self.waiting, self.next_due = left.later, left.due

    def time_of(self, not_before: float | None) -> float | None:
        """Return a Unix time by Redis' clock."""
        return None if not_before is None else not_before + self._frontier.clock_ahead

    def _schedule_visit(self, lease: Lease, visit: NextVisit) -> None:
        """Schedule a page for its next visit, in the step that settles this visit.

        For the first of these, this visit claims the mark of its page. So the page
        comes again once for each time, though several requests lead to it.
        """
        page: PageOnRedis = lease.own
        key = name = name_of(b"visit", visit.mark or page.name)
        also = None
        if visit.mark is not None and visit.renewed:
            key = name = name_of(b"visit", page.name)
            also = SeenMark(visit.slot, visit.mark)
        elif visit.mark is not None:
            key = visit.mark
        offer = Offer(
            visit.slot,
            key,
            payload_of(REQUEST, name, visit.payload),
            visit.priority,
            visit.start,
            also=also,
            known_as=None if visit.renewed else visit.mark,
            not_before=self.time_of(visit.not_before),
            claimed_as=None if visit.mark is None else page.claim(key),
        )
        self._stats.inc_value("scheduler/enqueued/redis")
        self._stats.inc_value("scheduler/enqueued")
        page.next_visit = offer
