"""AtHand: the requests that Redis has handed out to a worker, before they are begun."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.engines.on_redis.going.in_memory import Position
from bloomdupe.crawl.engines.on_redis.messages import START_PAGE, message_of
from bloomdupe.crawl.engines.on_redis.requests.page_on_redis import PageOnRedis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bloomdupe.crawl.engines.on_redis.going.shared_session import (
        SharedSession as Session,
    )
    from bloomdupe.crawl.engines.on_redis.slots.slot_states import SlotStates
    from bloomdupe.crawl.engines.on_redis.worker import Worker
    from bloomdupe.frontier.frontier import Frontier
    from bloomdupe.frontier.slot_queue import Entry
    from bloomdupe.redis.partition import RedisLease
    from bloomdupe.redis.shared_frontier import SharedFrontier

__all__ = ["AtHand"]

AT_HAND = 4
"""Requests on a worker, for each request that it may have in progress at once."""
HUNGRY = 64
"""Further requests to fetch, when none of those at hand may go yet."""
MOST_AT_HAND = 10_000
FEW = 4
"""Number of requests at hand from Redis at which their slot has its next turn."""


class AtHand:
    """Fetches requests before they are needed, and hands them out.

    The ``queue`` holds them, and those that cannot be stored.
    """

    def __init__(
        self,
        session: Session,
        worker: Worker,
        frontier: SharedFrontier,
        queue: Frontier,
        states: SlotStates,
    ) -> None:
        self._session = session
        self._worker = worker
        self._frontier = frontier
        self._queue = queue
        self._states = states
        concurrent = session.crawler.settings.getint("CONCURRENT_REQUESTS")
        self._enough = AT_HAND * max(1, concurrent)
        # Number of requests at hand from Redis, by slot.
        self._from_redis = Counter[str]()

    def begin(self) -> None:
        """Ask for the first requests."""
        self._worker.want(self._enough)

    def take(self, leases: Sequence[RedisLease]) -> None:
        """Take requests that Redis has handed out, and the states of their slots."""
        for lease in leases:
            message = message_of(lease.payload)
            page = PageOnRedis(
                message.name,
                lease,
                message.answers,
                is_start=message.kind == START_PAGE,
            )
            entry = self._queue.push(
                lease.slot,
                lease.priority,
                message.body,
                start=lease.again.start,
            )
            self._session.leases.expect(entry, Position(page.name), own=page)
            self._from_redis[lease.slot] += 1
            self._go_on_with(lease)

    def _go_on_with(self, lease: RedisLease) -> None:
        """Go on with the state of a slot as its last owner has left it."""
        self._states.restore(lease, self._frontier.clock_ahead)
        last = self._frontier.last_owner_until(lease)
        if last is not None:
            self._session.slots.sent(lease.slot, last)

    def next(self) -> Entry | None:
        """Hand out a request with a free slot, and ask for more if there are few."""
        leases, stats = self._session.leases, self._session.stats
        while True:
            entry = self._queue.lease()
            pending = self._queue.pending
            # Half of them at once: many requests in each script are cheap.
            wanted = self._enough - pending if 2 * pending <= self._enough else 0
            if entry is None:
                # All hosts at hand are busy, and further hosts may be free.
                wanted = max(wanted, HUNGRY)
            full = pending + self._queue.waiting >= MOST_AT_HAND
            self._worker.want(0 if full else wanted)
            if entry is None:
                return None
            page: Any = leases.own_of(entry)
            if page.lease is None:
                return entry
            self._count_taken(page.lease.slot)
            if self._frontier.holds(page.lease):
                stats.inc_value("scheduler/dequeued/redis")
                return entry
            # The lease has run out, and another worker has it.
            self.remove(entry)
            stats.inc_value("bloomdupe/leases_lost")

    def remove(self, entry: Entry) -> Any:  # noqa: ANN401 - what the engine has noted
        """Remove a request that is handed out and not begun; return its page."""
        page = self._session.leases.forget(entry)
        self._queue.settle(entry)
        return page

    def _count_taken(self, slot: str) -> None:
        """Let a slot take its next turn in Redis when few of it are at hand."""
        at_hand = self._from_redis[slot] - 1
        if at_hand <= FEW:
            self._worker.ask_again(slot)
        if at_hand:
            self._from_redis[slot] = at_hand
        else:
            del self._from_redis[slot]

    def give_back(self, partitions: frozenset[int] | None) -> None:
        """Begin no more requests of these partitions; None: of any partition."""
        known = self._session.leases

        def is_theirs(entry: Entry) -> bool:
            page: Any = known.own_of(entry)
            lease = page.lease
            return lease is not None and (
                partitions is None or lease.partition in partitions
            )

        pages: list[Any] = list(map(known.forget, self._queue.withdraw(is_theirs)))
        leases = [page.lease for page in pages]
        self._from_redis.subtract(lease.slot for lease in leases)
        self._worker.not_begin(leases)
