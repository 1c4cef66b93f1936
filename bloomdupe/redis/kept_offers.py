"""KeptOffers: requests that a worker offers again after Redis has lost writes."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from bloomdupe.redis.partition import Offer, RedisLease

__all__ = ["KEPT_SECONDS", "KeptOffers"]

KEPT_SECONDS = 10.0
"""Seconds of writes that Redis may lose without losing an offer that has no parent."""


class KeptOffers:
    """Offers that would not be repeated if Redis lost them.

    Offers of a request are kept until it is settled. A Redis that loses them after that
    also loses the settlement, which came later, and the request is done again. Offers
    without a parent, such as start requests, are kept for some seconds.
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
        """Keep answered offers; forget old offers that have no parent."""
        now = self._clock()
        for offer in offers:
            if offer.of is None:
                self._of_none.append((now, offer))
            else:
                self._of.setdefault(offer.of.token, []).append(offer)
        while self._of_none and self._of_none[0][0] < now - KEPT_SECONDS:
            self._of_none.popleft()

    def settled(self, lease: RedisLease) -> None:
        """Forget the offers of a settled request."""
        self._of.pop(lease.token, None)

    def offered_again(self) -> None:
        """Keep offers without a parent longer, because they were just offered again."""
        now = self._clock()
        self._of_none = deque((now, offer) for _, offer in self._of_none)
