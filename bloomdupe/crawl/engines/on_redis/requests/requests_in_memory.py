"""RequestsInMemory: the requests of a worker that Redis does not know."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.crawl.engines.on_redis.requests.page_on_redis import PageOnRedis
from bloomdupe.redis.partition import SeenMark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy import Request

    from bloomdupe.crawl.engines.on_redis.going.in_memory import Position
    from bloomdupe.crawl.engines.on_redis.going.shared_lease import SharedLease as Lease
    from bloomdupe.crawl.engines.on_redis.going.shared_offer import (
        SharedOffer as Accepted,
    )
    from bloomdupe.crawl.engines.on_redis.going.shared_session import (
        SharedSession as Session,
    )
    from bloomdupe.crawl.engines.on_redis.worker import Worker
    from bloomdupe.filter.bloom import BloomFilter
    from bloomdupe.frontier.frontier import Frontier
    from bloomdupe.redis.partition import RedisLease
    from bloomdupe.redis.shared_frontier import SharedFrontier

__all__ = ["RequestsInMemory"]


class _Kept(NamedTuple):
    """A request in memory, before it is pending."""

    request: Request
    slot: str
    not_before: float | None
    position: Position
    marks: Sequence[SeenMark]
    """Set when the request counts: first its fingerprint, or its name with
    ``dont_filter``; then the fingerprint of a start page with ``dont_filter``. Without
    any, it is done again whenever its page is.
    """


class RequestsInMemory:
    """Asks Redis which requests in memory are done, and keeps the rest.

    ``at_hand`` holds the pending requests, and ``seen`` the marks that the worker
    knows.
    """

    def __init__(
        self,
        session: Session,
        worker: Worker,
        frontier: SharedFrontier,
        at_hand: Frontier,
        seen: BloomFilter,
    ) -> None:
        self._session = session
        self._worker = worker
        self._frontier = frontier
        self._at_hand = at_hand
        self._seen = seen
        # By mark: the page of Redis that is not done before them, or None.
        self._carriers: dict[bytes, Lease | None] = {}
        # By mark: requests in progress that are not done before this request is.
        self._waiting: defaultdict[bytes, list[Lease]] = defaultdict(list)
        # Pages with such requests, until Redis has answered their settlement.
        self._settling: dict[tuple[int, str, bytes], Lease] = {}
        self.asked = 0
        """Number of requests that Redis is asked about."""

    def take(self, offer: Accepted) -> bool:
        """Keep a request; False if another page carries it."""
        position = self._session.position_of(offer)
        key = offer.name or (position.name if position.may_be_apart else None)
        if key is not None and self.is_carried(key, offer.parent):
            return False
        if position.name is None:  # of a timer, or spider_idle: each is new
            position = position._replace(name=os.urandom(16))
        self._session.leases.begin_part(position)
        kept = _Kept(offer.request, offer.slot, offer.not_before, position, [])
        if key is None:
            self._begin(kept)
            return True
        self._carriers[key] = position.top
        keys = [key]
        if offer.keys and offer.request.dont_filter:
            keys.append(offer.keys[-1][0])
            self._carriers.setdefault(keys[-1], position.top)
        marks = [SeenMark(offer.slot, each) for each in keys]
        kept = kept._replace(marks=marks)
        self.asked += 1
        self._worker.ask(kept.marks[0], kept)
        return True

    def is_carried(self, key: bytes, parent: Lease | None) -> bool:
        """Whether another page carries a request that cannot be stored.

        That page yields the request again if it is done again, on any worker. So the
        page above the ``parent`` may go without the request as long as this worker has
        the other page: it relies on it.

        If no page of Redis carries it, ``start()`` or a timer has led to it. Then this
        page is not done before it is. Otherwise its requests in memory could count as
        done, while only this page, done again, would lead to the requests below them.
        """
        if key not in self._carriers:
            return False
        carrier = self._carriers[key]
        above = None if parent is None or not parent.root.parts else parent.root
        top = None if above is None else above.top
        if carrier is top or top is None or top.own.lease is None:
            return True  # the same page, or it is never done again
        lease = None if carrier is None else carrier.own.lease
        if lease is None:
            assert above is not None  # noqa: S101 - there is a top
            above.parts += 1
            self._waiting[key].append(above)
        elif self._frontier.holds(lease):
            top.own.relies[lease.token] = lease
        else:
            return False
        return True

    def answered(self, answers: Sequence[tuple[Any, bool]]) -> None:
        """Begin with requests, unless they were done before."""
        for kept, known in answers:
            self.asked -= 1
            if known:
                self._drop(kept)
            else:
                self._begin(kept)

    def _drop(self, kept: _Kept) -> None:
        """Drop a request, because it was done before."""
        above = kept.position.above
        if not kept.request.dont_filter:
            self._session.stats.inc_value("dupefilter/filtered")
        for mark in kept.marks:
            self._seen.add(mark.fingerprint)
            self._let_go_of(mark, kept.position.top, known=True)
        if above is not None:
            self._session.leases.end_part(above)

    def _begin(self, kept: _Kept) -> None:
        request, position = kept.request, kept.position
        assert position.name is not None  # noqa: S101 - every request has a name here
        entry = self._at_hand.push(
            kept.slot,
            request.priority,
            b"",
            start=self._session.comes_last(request),
            attachment=request,
            not_before=kept.not_before,
        )
        page = PageOnRedis(position.name, None)
        self._session.leases.expect(entry, position, keys=kept.marks, own=page)
        self._session.access.wake()

    # The end

    def settle(self, root: Lease) -> None:
        """End a request in memory after its output was offered."""
        self._worker.mark(_marks_of(root))
        self._end(root, known=True)

    def settling(self, page: Lease) -> list[SeenMark]:
        """Return the marks that are set when Redis has accepted a settlement."""
        marks = _marks_of(page)
        if marks:
            self._settling[page.own.lease.token] = page
        return marks

    def accepted(self, leases: Sequence[RedisLease], *, sure: bool) -> None:
        """Treat the requests that these pages have carried as known, if ``sure``.

        Redis may have lost the settlement otherwise, and then other pages may do them.
        """
        for lease in leases:
            self._end(self._settling.pop(lease.token), known=sure)

    def refused(self, leases: Sequence[RedisLease]) -> None:
        """Let other pages do the requests that these pages have carried."""
        for lease in leases:
            if page := self._settling.pop(lease.token, None):
                self._end(page, known=False)

    def leave(self, root: Lease) -> None:
        """Let other pages do the requests that count with this request."""
        self._end(root, known=False)

    def _end(self, root: Lease, *, known: bool) -> None:
        for mark in _marks_of(root):
            if known:
                self._seen.add(mark.fingerprint)
            self._let_go_of(mark, root.top, known=known)

    def _let_go_of(self, mark: SeenMark, top: Lease | None, *, known: bool) -> None:
        """Forget that a page carries a request; another page may by now.

        If the request is not ``known`` to be done, the requests that wait for it are
        done again.
        """
        key = mark.fingerprint
        carrier = self._carriers.get(key)
        if carrier is None or carrier is top:
            self._carriers.pop(key, None)
        for above in self._waiting.pop(key, ()):
            above.broken = above.broken or not known
            self._session.leases.end_part(above)


def _marks_of(root: Lease) -> list[SeenMark]:
    return [mark for part in (root, *root.held) for mark in part.keys]
