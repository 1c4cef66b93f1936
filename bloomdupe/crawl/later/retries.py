"""Requests that wait: for the time that they name, and retries, longer each time."""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from bloomdupe.errors import RequestTimeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.statscollectors import StatsCollector

    from bloomdupe.crawl.leases.lease import Lease


@dataclass(frozen=True)
class GrowingWait:
    """Waits that grow by a factor up to a limit; half of each wait is random.

    This is *equal jitter* as in Marc Brooker, "Exponential Backoff And Jitter", AWS
    Architecture Blog, 2015: randomness keeps requests that have failed together from
    coming back together. His *full jitter* may wait for no time at all, and a server
    that has just failed would get all tries at once.
    """

    base: float
    """Seconds after the first failure, at most."""
    factor: float
    limit: float
    """Seconds, at most."""
    draw: Callable[[], float] = random.random
    """Returns a number from 0 to 1."""

    def longest(self, failures: int) -> float:
        """Return the longest wait after so many failures in a row, in seconds."""
        try:
            return min(self.base * float(self.factor) ** (failures - 1), self.limit)
        except OverflowError:
            return self.limit

    def seconds(self, failures: int) -> float:
        """Draw the wait after so many failures in a row."""
        return self.longest(failures) * (1 + self.draw()) / 2


def tries_of(request: Request) -> int:
    """Return how often a request was retried, as Scrapy counts it."""
    tries = request.meta.get("retry_times", 0)
    return tries if isinstance(tries, int) else 0


def is_retry(request: Request, lease: Lease | None) -> bool:
    """Whether a request is a retry of the request of ``lease``.

    A retry has a higher retry count. A request with the same count was made with a copy
    of ``meta``, or is a redirect.
    """
    if not request.dont_filter:
        return False
    before = 0 if lease is None else tries_of(lease.request)
    return tries_of(request) > before


class Retries:
    """Recognises retries by ``meta["retry_times"]``, and delays them."""

    def __init__(self, stats: StatsCollector, growing: GrowingWait) -> None:
        self._stats = stats
        self._growing = growing

    def let_wait(
        self,
        request: Request,
        lease: Lease | None,
        not_before: float | None,
        *,
        answer: bool,
    ) -> tuple[Request, float | None]:
        """Return a retry, and the Unix time before which it waits.

        ``lease`` belongs to the request that led to it. ``answer`` says whether the
        request is the downloader's answer to that.
        """
        if answer and lease is not None and not lease.try_counts:
            # It waits in its slot until that answers again.
            self._stats.inc_value("bloomdupe/retries_not_counted")
            request = request.copy()
            request.meta["retry_times"] = tries_of(lease.request)
            return request, not_before
        due = time.time() + self._growing.seconds(tries_of(request))
        return request, due if not_before is None else max(due, not_before)


NOT_BEFORE = "bloomdupe_not_before"
"""Unix seconds, or a datetime that knows its time zone."""
DELAY = "bloomdupe_delay"
"""Seconds from now."""

TIME_KEYS = (NOT_BEFORE, DELAY)

YEAR_10000 = 253_402_300_800.0
"""Unix time; ``datetime`` ends there, too."""


def time_of(request: Request, now: float) -> float | None:
    """Return the Unix time before which a request is not to be handed out, if any.

    Raises :class:`~bloomdupe.errors.RequestTimeError`, which names key and value, if
    the time is invalid.
    """
    meta = request.meta
    if NOT_BEFORE in meta and DELAY in meta:
        raise RequestTimeError(
            f"its meta has both {NOT_BEFORE!r} and {DELAY!r}; give one of them"
        )
    if DELAY in meta:
        return _checked(now + _number(DELAY, meta[DELAY], "seconds"), DELAY, meta)
    if NOT_BEFORE not in meta:
        return None
    value = meta[NOT_BEFORE]
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise RequestTimeError(
                f"meta[{NOT_BEFORE!r}] = {value!r} has no time zone: give it one, such"
                " as datetime.now(timezone.utc) has"
            )
        return value.timestamp()
    what = "Unix seconds or a datetime with a time zone"
    return _checked(_number(NOT_BEFORE, value, what), NOT_BEFORE, meta)


def without_time(request: Request) -> Request:
    """Return a copy without a time, so that its retries and redirects do not wait."""
    copy = request.copy()
    copy.meta.pop(NOT_BEFORE, None)
    copy.meta.pop(DELAY, None)
    return copy


def _number(name: str, value: object, what: str) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not math.isfinite(value)
    ):
        raise RequestTimeError(f"meta[{name!r}] = {value!r}: expected {what}")
    return float(value)


def _checked(due: float, name: str, meta: dict[str, object]) -> float:
    if due >= YEAR_10000:
        raise RequestTimeError(
            f"meta[{name!r}] = {meta[name]!r} is after the year 9999: it is given in"
            " seconds"
        )
    return due
