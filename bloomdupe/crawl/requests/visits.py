"""Visits: what is known of a page that comes again, and when it does so."""

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
"""Seconds between two visits to a page, at least and at most, if they are adaptive."""

NOT_MODIFIED = 304
GONE = frozenset({404, 410})
GONE_FOR_GOOD = 3
"""Visits in a row that found nothing, after which a page comes ever more rarely."""
YEAR = 365 * 86_400.0
"""Seconds; as often as that everything comes again, as in Apache Nutch's schedule."""


@dataclass
class Look:
    """What a visit has found."""

    when: float
    """Unix time."""
    status: int
    """0: there was no answer."""
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
    """A page after its last visit; it travels in the payload of the next one.

    So does what a retry or redirect takes over from the request before it. There it is
    a list of the attributes, in this order.
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
    """Of the page, or of what the spider has named."""
    etag: bytes | None = None
    modified: bytes | None = None
    gone: int = 0
    """Visits in a row that have found nothing."""
    rule: Rule | None = None
    """As it was for the first request, if this is what that was redirected to."""
    origin: bytes | None = None
    """That first request, as a payload."""
    stands_for: bytes | None = None
    """Key of the request whose unfinished work this one goes on with: see
    :meth:`bloomdupe.crawl.leases.leases.Leases.bequeath`."""
    renewed: bool = False
    """Whether it begins to come again, even if it did so before: it was asked for by
    hand, and no other visit waits."""

    @classmethod
    def of(cls, values: list[Any]) -> Visit:
        """Read what a payload holds; a later version may have written more."""
        return cls(*values[: len(_FIELDS)])

    @property
    def values(self) -> list[Any]:
        """Return what a payload holds."""
        return [getattr(self, name) for name in _FIELDS]

    def is_unchanged(self, look: Look) -> bool:
        """Whether a visit has found what the last one has found."""
        if look.status == NOT_MODIFIED:
            return True
        return self.visits > 0 and look.is_good and look.digest == self.digest

    def after(self, look: Look, rule: Rule, bounds: Bounds) -> Visit:
        """Return what is known after another visit, and when the next one is."""
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
