"""Claims: which partitions a worker may take, and which it should give back."""

from __future__ import annotations

import math
from collections import Counter
from time import monotonic
from typing import TYPE_CHECKING

from bloomdupe.store.redis.owner import NOBODY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bloomdupe.store.redis.crawl_reader import Look

MOST_BETWEEN = 2.0
"""Seconds between two looks that count at most: longer, and this worker was stopped."""
QUICK = 1.0
"""Seconds for which a look may take; longer, and Redis could not be reached."""


class Unchanged:
    """For how long a value of each worker was seen unchanged."""

    def __init__(self) -> None:
        self._values: Mapping[str, object] = {}
        self.seconds: dict[str, float] = {}

    def see(self, values: Mapping[str, object], between: float) -> None:
        """Compare the values with those of the last look, so many seconds ago."""
        self.seconds = {
            token: self.of(token) + between if self._values.get(token) == value else 0.0
            for token, value in values.items()
        }
        self._values = values

    def of(self, token: str) -> float:
        """Return the seconds of a worker."""
        return self.seconds.get(token, 0.0)


class Claims:
    """The other workers, as a worker has seen them, by its own clock.

    An owner commits every second, even if it has nothing to write, or shows by a
    heartbeat that it is blocked. It is dead when this worker has seen its step and its
    heartbeats unchanged for the time of the ``lease``, at many looks. No
    clock of another machine counts, and neither does the time while Redis was away.
    Who takes a partition of a worker that is alive does no harm: its next commit is
    refused.
    """

    def __init__(self, lease: float, clock: Callable[[], float] = monotonic) -> None:
        self._lease = lease
        self._clock = clock
        self._last = clock()
        self._commits = Unchanged()
        self._signs = Unchanged()
        self._interruptions = 0

    def see(self, look: Look, began: float, interruptions: int) -> None:
        """Count a look, which ``began`` then, by the clock.

        ``interruptions`` is how often Redis was away until now.
        """
        now = self._clock()
        between = min(now - self._last, MOST_BETWEEN)
        if interruptions != self._interruptions or now - began > QUICK:
            self._interruptions = interruptions
            self._commits.seconds.clear()
            self._signs.seconds.clear()
            between = 0.0
        self._last = now
        # One that has a partition and no step was forgotten.
        steps = dict.fromkeys(look.owners.values(), -1) | look.steps
        self._commits.see(steps, between)
        signs = {one: (step, look.beats.get(one, 0)) for one, step in steps.items()}
        self._signs.see(signs, between)

    def is_dead(self, token: str) -> bool:
        """Whether a worker has given no sign of life for the time of the lease."""
        return self._signs.of(token) >= self._lease

    def _works(self, token: str) -> bool:
        """Whether a worker commits: a callback may block a worker that is alive."""
        return self._commits.of(token) < self._lease

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
        """Whether this worker should give a partition to a worker with fewer."""
        owned = self._owned(look, me)
        richest = max(owned, key=lambda token: (owned[token], token))
        return richest == me and owned[me] - min(owned.values()) > 1

    def _owned(self, look: Look, me: str) -> Counter[str]:
        """Count the partitions of each worker that could take some."""
        owned: Counter[str] = Counter()
        owned[me] = 0
        for token in look.steps:
            if self._works(token):
                owned[token] = 0
        for token in look.owners.values():
            if token in owned:
                owned[token] += 1
        return owned
