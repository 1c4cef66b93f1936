"""ChangeRate: how often a page changes, and so how often to visit it.

A page is modelled as a Poisson process: it changes at a rate that does not depend on
the time of its last change. J. Cho and H. Garcia-Molina, "Estimating frequency of
change", ACM Transactions on Internet Technology 3(3), 2003, estimate the rate. The same
authors, "Effective page refresh policies for Web crawlers", ACM Transactions on
Database Systems 28(4), 2003, derive the best frequency of visits from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["ChangeRate", "best_interval"]

MEMORY = 0.95
"""Weight of the past after each visit: about the last twenty visits count."""

STEEPEST = 1.7932821329
"""r with e^r = 1 + r + r^2: there r / (1 - (1 + r) e^-r) is least."""
DEAREST = 1 - (1 + STEEPEST) * math.exp(-STEEPEST)
"""The value of 1 - (1 + r) e^-r at this r; it is rate * price."""


@dataclass(frozen=True)
class ChangeRate:
    """An estimate of the rate at which a page changes."""

    changes: float
    """Visits that found a change; older visits count less."""
    changed: float
    """Seconds between each of these and the visit before, summed with the same weights.
    """
    unchanged: float
    """The same for visits that found no change."""

    @classmethod
    def unknown(cls, interval: float) -> ChangeRate:
        """Begin with half a change.

        It is in one ``interval``, in seconds: half of it changed, half unchanged.
        """
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
        """Estimated changes per second.

        For visits at equal intervals I, if X of n visits found a change, this is Cho
        and Garcia-Molina's -log((n - X + 0.5) / (n + 0.5)) / I, which has little bias.
        For unequal intervals, the intervals with a change count as their mean.
        """
        mean = self.changed / self.changes
        return math.log(1 + self.changed / (self.unchanged + mean / 2)) / mean


def best_interval(rate: float, least: float) -> float:
    """Return the seconds between two visits that keep pages freshest.

    ``rate`` is in changes per second. A page is fresh while our copy equals it. With f
    visits per second that is the share (f / rate) (1 - e^(-rate / f)) of the time. For
    a given total number of visits, freshness is greatest if one more visit would gain
    the same for every page: 1 - (1 + r) e^-r = rate * price, where r = rate / f, and
    the price is the least gain that justifies a visit. Here the price is such that no
    interval is shorter than ``least`` seconds. The theory gives no visits to pages that
    change too fast to follow. Here they get the shortest interval, so that a page that
    changes more often is never visited less often.
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
