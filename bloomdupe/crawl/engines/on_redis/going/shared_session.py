# mypy: ignore-errors
# ruff: noqa: ANN401
"""SharedSession: Scrapy's side of a crawl that several workers share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.engines.on_redis.going.carried import CarriedValues
from bloomdupe.crawl.engines.on_redis.going.identity import identity_of
from bloomdupe.crawl.engines.on_redis.going.in_memory import position_of
from bloomdupe.crawl.engines.on_redis.going.shared_lease import SharedLease
from bloomdupe.crawl.engines.on_redis.going.shared_leases import SharedLeases
from bloomdupe.crawl.engines.on_redis.going.start_outputs import (
    SharedStartItem as StartItem,
)
from bloomdupe.crawl.engines.session import Session
from bloomdupe.crawl.leases.failure import digest_of
from bloomdupe.crawl.leases.outcomes import Outcome
from bloomdupe.crawl.state.failures import failure_of
from bloomdupe.errors import UnserializableError
from bloomdupe.inside_scrapy.shared_processing import SharedProcessing
from bloomdupe.inside_scrapy.work import current_work

if TYPE_CHECKING:
    from bloomdupe.crawl.engines.on_redis.going.in_memory import Position
    from bloomdupe.crawl.engines.on_redis.going.shared_offer import (
        SharedOffer as Accepted,
    )


class SharedSession(Session):
    """Recognises the children of requests that another worker runs again."""

    leases_class = SharedLeases
    processing_class = SharedProcessing
    leases: Any
    engine: Any
    processing: Any

    def __init__(self, crawler: Any, job: Any) -> None:
        super().__init__(crawler, job)
        self._carried_values = CarriedValues(self.serializer.callbacks)

    def parent(self) -> SharedLease | None:
        """Return the request on which the running code works, if it is not settled."""
        work = current_work()
        if type(work) is SharedLease and work.leases is self.leases:
            root = work.root
            if root.parts or root.left:
                return work
        return None

    def take_item(self, response: Any, lines: list[tuple[int, bytes]]) -> None:
        """Take an item that is through its pipelines, as lines for the feeds."""
        if self._closed:
            return
        parent = self._page_of_item(response)
        work: object = current_work()
        if parent is not None:
            work, outcome = parent, parent.outcome
        elif type(work) is StartItem:
            outcome = work.outcome
        else:
            outcome = Outcome()
        if not self._add_item(outcome, lines):
            return
        if parent is None or parent.root.left:
            self.engine.put(outcome, work)

    def _dropped(self) -> None:
        work = current_work()
        if type(work) is StartItem and not self._closed:
            self.engine.put(work.outcome, work)

    def position_of(self, offer: Accepted) -> Position:
        """Return the position of a request that cannot be stored, and its name."""
        return position_of(
            offer.request,
            offer.parent,
            offer.name,
            offer.identity,
            self._carried_values,
            repeats=offer.repeats,
        )


class SharedRecords:
    """Tells failed requests apart by fingerprint and identity."""

    of = staticmethod(failure_of)

    def __init__(self, serializer: Any, fingerprint: Any) -> None:
        self._serializer = serializer
        self._fingerprint = fingerprint

    def key_of(self, request: Any, by_middlewares: Any) -> bytes:
        """Return the key of a request, whether it has failed or not."""
        fingerprint = self._fingerprint(request)
        return digest_of(fingerprint, identity_of(request, fingerprint, by_middlewares))

    def untried(self, lease: Any) -> bytes | None:
        """Return the request as the scheduler had it, but with all its retries."""
        payload = lease.entry.payload
        if lease.comes_again or not payload:
            return None
        if "retry_times" not in lease.request.meta:
            return payload
        try:
            request = self._serializer.load(payload)
            request.meta.pop("retry_times", None)
            return self._serializer.dump(request)
        except UnserializableError:
            return payload
