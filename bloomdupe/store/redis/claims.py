"""Claims: which partitions a worker may take, and which it should give back."""

from __future__ import annotations

import math
from collections import Counter
from time import monotonic
from typing import TYPE_CHECKING

from bloomdupe.store.redis.owner import NOBODY

if TYPE_CHECKING:
    from collections.abc import Callable

    from bloomdupe.store.redis.crawl_reader import Look

MOST_BETWEEN = 2.0
"""Seconds between two looks that count at most: longer, and this worker was stopped."""
QUICK = 1.0
"""Seconds for which a look may take; longer, and Redis could not be reached."""


class Claims:
    """What a worker has seen of the other workers, by its own clock.

    An owner commits every second, even if it has nothing to write. It is dead when this
    worker has seen its step unchanged for the time of the ``lease``, at many looks. No
    clock of another machine counts; and the time while Redis was away counts for
    nobody. Who takes a partition of a worker that is alive does no harm: its next
    commit is refused.
    """

    def __init__(self, lease: float, clock: Callable[[], float] = monotonic) -> None:
        self._lease = lease
        self._clock = clock
        self._last = clock()
        self._steps: dict[str, int] = {}
        self._unchanged: dict[str, float] = {}
        self._interruptions = 0

    def see(self, look: Look, began: float, interruptions: int) -> None:
        """Count a look, which ``began`` then, by the clock.

        ``interruptions`` is how often Redis was away until now.
        """
        now = self._clock()
        between = min(now - self._last, MOST_BETWEEN)
        if interruptions != self._interruptions or now - began > QUICK:
            self._interruptions = interruptions
            self._unchanged.clear()
            between = 0.0
        self._last = now
        # One that has a partition and no step was forgotten.
        steps = dict.fromkeys(look.owners.values(), -1) | look.steps
        self._unchanged = {
            token: self._unchanged.get(token, 0.0) + between
            if self._steps.get(token) == step
            else 0.0
            for token, step in steps.items()
        }
        self._steps = steps

    def is_dead(self, token: str) -> bool:
        """Whether a worker has not committed for the time of the lease."""
        return self._unchanged.get(token, 0.0) >= self._lease

    def idle(self, look: Look, me: str) -> list[str]:
        """Return the workers that are dead and have no partition."""
        gone = look.steps.keys() - look.owners.values() - {me}
        return [token for token in gone if self.is_dead(token)]

    def to_take(self, look: Look, me: str) -> dict[int, str]:
        """Return the partitions to take now, with the owners that were seen."""
        free = {
            number: owner
            for number in range(len(look.inboxes))
            if (owner := look.owners.get(number, NOBODY)) == NOBODY
            or (owner != me and self.is_dead(owner))
        }
        owned = self._owned(look, me)
        if owned[me] > min(owned.values()):
            return {}  # one who has fewer comes first
        most = math.ceil(len(look.inboxes) / len(owned)) - owned[me]
        return dict(list(free.items())[: max(0, most)])

    def has_too_many(self, look: Look, me: str) -> bool:
        """Whether this worker should give a partition to one who has fewer."""
        owned = self._owned(look, me)
        richest = max(owned, key=lambda token: (owned[token], token))
        return richest == me and owned[me] - min(owned.values()) > 1

    def _owned(self, look: Look, me: str) -> Counter[str]:
        """Count the partitions of each worker that is alive."""
        owned: Counter[str] = Counter()
        owned[me] = 0
        for token in look.steps:
            if not self.is_dead(token):
                owned[token] = 0
        for token in look.owners.values():
            if token in owned:
                owned[token] += 1
        return owned
