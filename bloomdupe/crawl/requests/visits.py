"""Visits: the known facts about a page that comes again, and its next time."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from bloomdupe.crawl.later.change_rate import ChangeRate, best_interval

__all__ = ["ADAPTIVE", "Bounds", "Look", "Rule", "Visit"]

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
    """See :class:`bloomdupe.crawl.later.change_rate.ChangeRate`."""
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
