"""Visits: the known facts about a page that comes again, and its next time.

A page is modelled as a Poisson process: it changes at a rate that does not depend on
the time of its last change. J. Cho and H. Garcia-Molina, "Estimating frequency of
change", ACM Transactions on Internet Technology 3(3), 2003, estimate the rate. The same
authors, "Effective page refresh policies for Web crawlers", ACM Transactions on
Database Systems 28(4), 2003, derive the best frequency of visits from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["ADAPTIVE", "Bounds", "ChangeRate", "Look", "Rule", "Visit", "best_interval"]

ADAPTIVE = "adaptive"
"""A rule: sooner if the page has changed, later if not."""
Rule = float | str
"""Seconds between two visits, or ``ADAPTIVE``."""
Bounds = tuple[float, float]
"""Least and greatest number of seconds between two adaptive visits to a page."""

NOT_MODIFIED = 304
GONE = frozenset({404, 410})
GONE_FOR_GOOD = 3
"""Visits in a row that found no page, after which it comes ever more rarely."""
YEAR = 365 * 86_400.0
"""Seconds; growing intervals stop here, as in Apache Nutch's schedule."""


@dataclass
class Look:
    """The result of a visit."""

    when: float
    """Unix time."""
    status: int
    """0 if there was no answer."""
    digest: bytes = b""
    etag: bytes | None = None
    modified: bytes | None = None
    """The header ``Last-Modified``."""

    @property
    def is_good(self) -> bool:
        """Whether the page was there."""
        return 0 < self.status < 400


@dataclass(frozen=True)
class Visit:
    """A page after its last visit; the payload of its next request carries it.

    It also carries the data that a retry or redirect inherits from the request before
    it. In the payload it is a list of the attributes, in this order.
    """

    visits: int = 0
    interval: float = 0.0
    """Seconds from the last visit to the next."""
    last: float = 0.0
    """Unix time of the last visit that found the page."""
    changes: float = 0.0
    changed: float = 0.0
    unchanged: float = 0.0
    """See :class:`bloomdupe.crawl.requests.visits.ChangeRate`."""
    digest: bytes = b""
    """Of the page's body, or of the content that the spider has named instead."""
    etag: bytes | None = None
    modified: bytes | None = None
    gone: int = 0
    """Visits in a row that found no page."""
    rule: Rule | None = None
    """The rule of the first request, if this is the target of its redirect."""
    origin: bytes | None = None
    """This first request, as a payload."""
    name: bytes | None = None
    """Name of the request, if it took the place of another one: see
    :meth:`bloomdupe.crawl.leases.leases.Leases.pass_on`.
    """
    renewed: bool = False
    """Whether it starts to come again even if it did so before: the user asked for it,
    and no other visit is pending.
    """

    @classmethod
    def of(cls, values: list[Any]) -> Visit:
        """Read the list of a payload; a later version may have written more."""
        return cls(*values[: len(_FIELDS)])

    @property
    def values(self) -> list[Any]:
        """Return the list for a payload."""
        return [getattr(self, name) for name in _FIELDS]

    def is_unchanged(self, look: Look) -> bool:
        """Whether a visit has found the same page as the last visit."""
        if look.status == NOT_MODIFIED:
            return True
        return self.visits > 0 and look.is_good and look.digest == self.digest

    def after(self, look: Look, rule: Rule, bounds: Bounds) -> Visit:
        """Return the facts after another visit, and the time of the next visit."""
        if look.status in GONE:
            gone = self.gone + 1
            grow = 2 if gone >= GONE_FOR_GOOD else 1
            interval = max(self.interval, min(grow * self.interval, YEAR))
            return replace(self, interval=interval, gone=gone)
        if not look.is_good:
            return self
        if rule == ADAPTIVE:
            visit = self._adapted(look, bounds)
        else:
            visit = replace(self, interval=float(rule))
        if look.status == NOT_MODIFIED:
            look = Look(
                look.when,
                look.status,
                self.digest,
                look.etag or self.etag,
                look.modified or self.modified,
            )
        return replace(
            visit,
            visits=self.visits + 1,
            last=look.when,
            digest=look.digest,
            etag=look.etag,
            modified=look.modified,
            gone=0,
        )

    def _adapted(self, look: Look, bounds: Bounds) -> Visit:
        least, most = bounds
        if not self.visits:
            return replace(self, interval=math.sqrt(least * most))
        rate = ChangeRate(self.changes, self.changed, self.unchanged)
        if not self.changes:
            rate = ChangeRate.unknown(self.interval)
        changed = not self.is_unchanged(look)
        # The clock may have been set back meanwhile.
        rate = rate.after(max(1.0, look.when - self.last), changed=changed)
        interval = best_interval(rate.per_second, least)
        interval = (min if changed else max)(interval, self.interval)
        return replace(
            self,
            interval=max(least, min(interval, most)),
            changes=rate.changes,
            changed=rate.changed,
            unchanged=rate.unchanged,
        )


_FIELDS = tuple(Visit.__dataclass_fields__)


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
