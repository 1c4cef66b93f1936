"""Apart: the requests that no page yields again, as long as they may be lost."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.store.participant import Part, Participant

if TYPE_CHECKING:
    from bloomdupe.crawl.leases.lease import Accepted, Lease
    from bloomdupe.frontier.slot_queue import Entry


class _Taken(NamedTuple):
    offer: Accepted
    entry: Entry | None
    """None: it was sent to another worker."""
    lease: Lease | None
    """Of a request that is not durable by itself, or that of its page."""

    @property
    def is_durable(self) -> bool:
        """Whether the next commit makes it durable, or its end."""
        if self.lease is not None and self.lease.is_settled:
            return True
        entry = self.entry
        if entry is None:
            return self.lease is None
        return entry.payload is not None and not entry.volatile


class Apart(Participant):
    """Requests of ``start()`` and of code that works for no page, until a commit.

    If that is refused, all that is in memory is dropped. Any other request is yielded
    again by its page, but ``start()`` goes on in the same process. The store may go
    back to an older commit, so the last requests of ``start()``, as many as ``keep``
    says, are kept though they were durable.
    """

    def __init__(self, keep: int = 0) -> None:
        self._taken: list[_Taken] = []
        self._durable: deque[_Taken] = deque(maxlen=keep)

    def add(self, offer: Accepted, entry: Entry | None, lease: Lease | None) -> None:
        """Keep a request until it is durable."""
        self._taken.append(_Taken(offer, entry, lease))

    def prepare(self) -> Part:
        """Return a part that forgets those that are durable then."""
        number = len(self._taken)
        left: list[_Taken] = []
        durable: list[_Taken] = []
        for one in self._taken:
            (durable if one.is_durable else left).append(one)

        def done() -> None:
            self._taken[:number] = left
            self._durable += [one for one in durable if one.offer.of_start]

        return Part(done=done)

    def drop(self) -> list[Accepted]:
        """Remove all of them, and return them as they may be taken again.

        Call it before their pages lose their parts. An object may be in progress in
        Scrapy, so it comes as a copy.
        """
        taken, self._taken = [*self._durable, *self._taken], []
        self._durable.clear()
        return [
            one.offer._replace(
                request=one.offer.request.copy(),
                page=_without_settled(one.offer.page),
            )
            for one in taken
        ]


def _without_settled(page: Lease | None) -> Lease | None:
    return None if page is None or page.is_settled else page
