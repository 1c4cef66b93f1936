"""KeptOffers: what a worker offers again to a Redis that has gone back."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from bloomdupe.redis.partition import Lease, Offer

__all__ = ["KEPT_SECONDS", "KeptOffers"]

KEPT_SECONDS = 10.0
"""How far a Redis may go back without a loss of what no request has led to."""


class KeptOffers:
    """Offers that nobody makes again if Redis loses them.

    Those of a request are kept until it is settled: from then on, a Redis that loses
    them loses the settlement, too, which came later, and the request is done again.
    Those of no request, such as start requests, are kept for some seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._of: dict[tuple[int, str, bytes], list[Offer]] = {}
        self._of_none: deque[tuple[float, Offer]] = deque()

    def __iter__(self) -> Iterator[Offer]:
        for offers in self._of.values():
            yield from offers
        for _, offer in self._of_none:
            yield offer

    def keep(self, offers: Iterable[Offer]) -> None:
        """Keep offers that were answered; forget those of no request that are old."""
        now = self._clock()
        for offer in offers:
            if offer.of is None:
                self._of_none.append((now, offer))
            else:
                self._of.setdefault(offer.of.token, []).append(offer)
        while self._of_none and self._of_none[0][0] < now - KEPT_SECONDS:
            self._of_none.popleft()

    def settled(self, lease: Lease) -> None:
        """Forget what a request has led to."""
        self._of.pop(lease.token, None)

    def offered_again(self) -> None:
        """Take note that all was offered again just now."""
        now = self._clock()
        self._of_none = deque((now, offer) for _, offer in self._of_none)
