"""ChangeRate: how often a page changes, and how often to visit it therefore.

A page is taken for a Poisson process: it changes at a rate that does not depend on when
it has changed last. J. Cho and H. Garcia-Molina, "Estimating frequency of change", ACM
Transactions on Internet Technology 3(3), 2003, estimate the rate; the same, "Effective
page refresh policies for Web crawlers", ACM Transactions on Database Systems 28(4),
2003, say what the best frequency of visits is for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["ChangeRate", "best_interval"]

MEMORY = 0.95
"""What of the past counts after each visit: about the last twenty visits do."""

STEEPEST = 1.7932821329
"""r with e^r = 1 + r + r^2: there r / (1 - (1 + r) e^-r) is least."""
DEAREST = 1 - (1 + STEEPEST) * math.exp(-STEEPEST)
"""That at this r, which is rate * price."""


@dataclass(frozen=True)
class ChangeRate:
    """What is known about the rate at which a page changes."""

    changes: float
    """Visits that found a change, older ones counting less."""
    changed: float
    """Seconds between each of these and the visit before, added up likewise."""
    unchanged: float
    """The same for visits that found none."""

    @classmethod
    def unknown(cls, interval: float) -> ChangeRate:
        """Begin with half a change in one interval, in seconds, of two halves."""
        return cls(0.5, 0.5 * interval, 0.5 * interval)

    def after(self, seconds: float, *, changed: bool) -> ChangeRate:
        """Return it after a visit, so many seconds after the one before."""
        more = seconds * changed, seconds * (not changed)
        return ChangeRate(
            MEMORY * self.changes + changed,
            MEMORY * self.changed + more[0],
            MEMORY * self.unchanged + more[1],
        )

    @property
    def per_second(self) -> float:
        """Changes a second, as estimated.

        For visits at equal intervals I, of n visits X with a change, this is Cho and
        Garcia-Molina's -log((n - X + 0.5) / (n + 0.5)) / I, whose bias is small. For
        others, the intervals with a change count as their mean.
        """
        mean = self.changed / self.changes
        return math.log(1 + self.changed / (self.unchanged + mean / 2)) / mean


def best_interval(rate: float, least: float) -> float:
    """Return the seconds between two visits that keep pages freshest.

    ``rate`` is in changes a second. A page is fresh while our copy is as it is. With f
    visits a second that is the share (f / rate) (1 - e^(-rate / f)) of the time. With a
    given number of visits in all, most is fresh if one visit more would bring every
    page the same: 1 - (1 + r) e^-r = rate * price, where r = rate / f, and the price is
    what one visit must be worth. Here it is such that no interval is shorter than
    ``least`` seconds. Pages that change faster than it pays to follow would get no
    visits then; here they have the shortest interval, so that a page that changes more
    often is never visited less often.
    """
    price = least * DEAREST / STEEPEST
    worth = rate * price
    if worth >= DEAREST:
        return least
    low, high = 0.0, STEEPEST
    for _ in range(60):
        middle = (low + high) / 2
        if -math.expm1(-middle) - middle * math.exp(-middle) < worth:
            low = middle
        else:
            high = middle
    return max(least, high / rate)
