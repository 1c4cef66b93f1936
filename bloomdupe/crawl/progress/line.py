"""Progress: the log line on the state of a crawl."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from bloomdupe.crawl.progress.pace import (
    duration,
    per_minute,
    time_to_fill,
    time_to_go,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bloomdupe.crawl.progress.history import Point

__all__ = ["ProgressLine", "pages_lost"]

LITTLE = 0.001
MOST_REASONS = 4
"""Reasons in the line, those of the most failures."""
FULL = 0.8
"""Share of the expected URLs from which on the filter is in the line."""
LONG = 1.0
"""Seconds from which on a checkpoint is in the line."""


class ProgressLine:
    """Makes the lines of a run: news stand in the line in which they are new."""

    def __init__(self, capacity: int) -> None:
        """``capacity`` is the expected number of URLs."""
        self._capacity = capacity
        self._said: set[str] = set()

    def text(
        self,
        last: Point | None,
        first: Point | None,
        now: Point,
        reasons: Mapping[str, int],
        longest: float,
    ) -> str:
        """Return a line; rates are since ``last``, forecasts since ``first``.

        ``reasons`` are numbers of failed requests, the largest first, ``longest`` the
        seconds of the run's longest checkpoint.
        """
        news = [one for one in self._news(first, now, longest) if one not in self._said]
        self._said.update(news)
        return "; ".join([", ".join(_counts(last, first, now, reasons)), *news])

    def _news(self, first: Point | None, now: Point, longest: float) -> Iterator[str]:
        full = now.seen / self._capacity
        if full >= FULL:
            yield f"filter {full:.0%} full"
        if now.loss >= LITTLE:
            yield pages_lost(now.loss)
        if longest >= LONG:
            yield f"longest checkpoint {longest:.1f} s"
        filled = time_to_fill(first, now) if now.disk else None
        if filled is not None:
            yield f"disk full in {duration(filled)}"


def _counts(
    last: Point | None, first: Point | None, now: Point, reasons: Mapping[str, int]
) -> Iterator[str]:
    rate = per_minute(last, now)
    yield f"{now.pages:,} pages" + ("" if rate is None else f" ({rate:,.0f}/min)")
    if now.failed:
        most = [f"{n:,} {why}" for why, n in islice(reasons.items(), MOST_REASONS)]
        more = ["..."] if len(reasons) > MOST_REASONS else []
        yield f"{now.failed:,} failed ({', '.join([*most, *more])})"
    hosts = f"{now.slots:,} host{'s' * (now.slots != 1)}"
    resting = f" ({now.resting:,} resting)" if now.resting else ""
    yield f"{now.pending:,} pending on {hosts}{resting}"
    if rate is not None and round(rate) == 0 and now.leased:
        yield f"{now.leased:,} in progress"
    if now.later:
        yield f"{now.later:,} for later"
    left = time_to_go(first, now)
    if left:
        yield f"{duration(left)} to go"
    elif first is not None and _unfinished(now) > _unfinished(first):
        yield "and more come than go"


def _unfinished(point: Point) -> int:
    return point.pending + point.leased


def pages_lost(expected: float) -> str:
    """Return the expected number of pages that the filter has lost, in words."""
    return "no page lost" if expected < LITTLE else f"{expected:.3g} pages lost"
