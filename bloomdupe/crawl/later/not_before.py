"""NotBefore: the point in time that a request asks for in its ``meta``."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING

from bloomdupe.errors import RequestTimeError

if TYPE_CHECKING:
    from scrapy import Request

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
