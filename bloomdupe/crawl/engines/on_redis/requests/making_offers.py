"""MakingOffers: requests and output, as a worker offers them to Redis."""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING

from bloomdupe.crawl.engines.on_redis.going.names import OutputNames, name_of
from bloomdupe.crawl.engines.on_redis.messages import (
    FAILED,
    ITEM,
    REQUEST,
    START_PAGE,
    counted,
    joined,
    packed_failed,
    payload_of,
)
from bloomdupe.crawl.state.limits import PAGE, PENDING
from bloomdupe.redis.partition import NO_BOUND, Offer, SeenMark, SlotBounds, Taken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bloomdupe.crawl.engines.on_redis.going.shared_lease import SharedLease as Lease
    from bloomdupe.crawl.engines.on_redis.going.shared_offer import (
        SharedOffer as Accepted,
    )
    from bloomdupe.crawl.engines.on_redis.going.shared_session import (
        SharedSession as Session,
    )
    from bloomdupe.crawl.engines.on_redis.requests.later_on_redis import LaterOnRedis
    from bloomdupe.crawl.engines.on_redis.requests.page_on_redis import PageOnRedis
    from bloomdupe.crawl.engines.on_redis.worker import Worker
    from bloomdupe.crawl.state.limits import SlotLimits
    from bloomdupe.filter.bloom import BloomFilter
    from bloomdupe.redis.partition import RedisLease
    from bloomdupe.redis.settled.failed_requests import FailedRequest
    from bloomdupe.redis.settled.tally import Numbers

__all__ = ["MakingOffers"]

REFUSALS: dict[int, str] = {Taken.PAGE_LIMIT: PAGE, Taken.PENDING_LIMIT: PENDING}


class MakingOffers:
    """Offers requests to Redis, which keeps them for all workers under their names.

    ``seen`` holds the marks that this worker knows.
    """

    def __init__(
        self,
        session: Session,
        worker: Worker,
        later: LaterOnRedis,
        seen: BloomFilter,
        limits: SlotLimits,
    ) -> None:
        self._session = session
        self._stats = session.stats
        self._worker = worker
        self._later = later
        self._seen = seen
        self._limits = limits

    def offer(self, offer: Accepted) -> None:
        """Offer a request that can be stored."""
        self._worker.offer(self._offer_of(offer, self._name_of(offer, held=False)))

    def hold(self, offer: Accepted) -> None:
        """Keep a request back until its parent ends, to take its place."""
        assert offer.parent is not None  # noqa: S101 - it takes its place
        name = self._name_of(offer, held=True)
        page: PageOnRedis = offer.parent.own
        offer.parent.instead = self._offer_of(offer, name)
        page.may_hold, page.is_child = False, not offer.repeats

    def judged(self, answers: Sequence[tuple[Offer, int]]) -> None:
        """Remember accepted requests; count those that their slots have no room for.

        A refused request is not marked, so it may be offered again.
        """
        for offer, taken in answers:
            kind = REFUSALS.get(taken)
            if kind is not None:
                self._limits.refuse(kind, offer.slot)
                self._stats.inc_value("scheduler/enqueued", -1)
                self._stats.inc_value("scheduler/enqueued/redis", -1)
            elif offer.known_as is not None:
                self._seen.add(offer.known_as)

    def _name_of(self, offer: Accepted, *, held: bool) -> bytes:
        """Return the name of a request, unique in the crawl."""
        if offer.name is not None:
            return offer.name
        parent = offer.parent
        if parent is None:  # of a timer, or spider_idle: each is new
            return name_of(b"nobody", os.urandom(16))
        if offer.answers or (held and offer.repeats):
            return name_of(b"answer", parent.name, offer.identity)
        named = parent.name_of(offer.identity)
        assert named is not None  # noqa: S101 - every request has a name here
        return named

    def _offer_of(self, offer: Accepted, name: bytes) -> Offer:
        """Return a request as Redis gets it, and remember it."""
        request, parent = offer.request, offer.parent
        also = known_as = None
        bounds = self._bounds_of(offer)
        if offer.keys:
            mark = offer.keys[-1][0]
            if bounds is None:  # else it may be offered again, if it is refused
                self._seen.add(mark)
            # Else it passes though its page was seen.
            if offer.name is not None and not self._is_again(offer):
                known_as = mark
            if name != mark:
                also = SeenMark(offer.slot, mark)
        self._stats.inc_value("scheduler/enqueued/redis")
        payload = offer.payload
        assert payload is not None  # noqa: S101 - it is stored
        if offer.repeats and parent is not None:
            visit = self._later.revisits.follow(parent)
            if visit is not None:
                payload = visit.added_to(payload)
        return Offer(
            offer.slot,
            name,
            payload_of(self._kind_of(offer), name, payload),
            request.priority,
            self._session.comes_last(request),
            None if parent is None else parent.top.own.lease,
            also,
            known_as,
            bounds,
            self._later.time_of(offer.not_before),
        )

    def _is_again(self, offer: Accepted) -> bool:
        """Whether it is a start request that an earlier round may have scheduled."""
        return offer.start and self._session.engine.starting.round > 1

    def _bounds_of(self, offer: Accepted) -> SlotBounds | None:
        """Return the limits of a request's slot; a redirect counts, and always passes.

        Redis judges, because it knows the requests of all workers.
        """
        if not self._limits.on or offer.request.dont_filter:
            return None
        if offer.answers:
            return SlotBounds()
        given = (self._limits.of[kind] for kind in (PAGE, PENDING))
        return SlotBounds(*(NO_BOUND if one is None else one for one in given))

    def _kind_of(self, offer: Accepted) -> bytes:
        """Return the kind of a request: the workers must know the start pages."""
        request, parent = offer.request, offer.parent
        is_start = offer.start and request.dont_filter
        if offer.repeats and parent is not None and parent.own.is_start:
            page = self._session.fingerprint(parent.request)
            is_start = self._session.fingerprint(request) == page
        return START_PAGE if is_start else REQUEST

    # Output and failures that belong to no request of Redis

    def failure(self, lease: Lease, failed: FailedRequest) -> None:
        """Offer the failure, or success, of a request that cannot be stored."""
        kind = b"failed" if failed.record else b"succeeded"
        name = name_of(kind, lease.own.name)
        payload = payload_of(FAILED, name, packed_failed(failed))
        of, slot = lease.top.own.lease, lease.entry.queue.name
        self._worker.offer(Offer(slot, name, payload, of=of))

    def lines_of(
        self, page: PageOnRedis, lines: list[bytes], of: RedisLease | None = None
    ) -> None:
        """Offer lines of a request in memory, each with its own name.

        The request may have been left before, with the first of these lines, and
        another worker may do it, too, or the page that has yielded it.
        """
        names = OutputNames(page.name)
        for line in lines:
            self.lines(names.name_of(line), [line], of)

    def lines(
        self,
        name: bytes,
        lines: list[bytes],
        of: RedisLease | None = None,
        counts: Numbers = MappingProxyType({}),
    ) -> None:
        """Offer lines that belong to no request of Redis: once for each name.

        ``of`` is the page that yields them again, and the ``counts`` come with them.
        """
        name = name_of(b"item", name)
        payload = counted(payload_of(ITEM, name, joined(lines)), counts)
        self._worker.offer(Offer("", name, payload, of=of))
