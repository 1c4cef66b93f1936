"""TimeAxis: the time that a crawl was running, with the times that clocks showed.

Between two runs nothing happens, be it for a second or for a week. So an axis has the
seconds that the crawl was running, and its ticks have the local time, as in the log.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bloomdupe.crawl.progress.history import Point

__all__ = ["Tick", "ticks"]

MINUTE, HOUR, DAY = 60, 3_600, 86_400
STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(minutes * MINUTE for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * HOUR for hours in (1, 2, 3, 6, 12)),
    *(days * DAY for days in (1, 2, 7, 14, 28, 56, 112, 224)),
)
"""Seconds between two ticks."""
MOST = 5
"""Ticks, if any step of ``STEPS`` makes so few."""


class Tick(NamedTuple):
    """A tick of the axis."""

    seconds: float
    """Seconds that the crawl was running."""
    text: str


def ticks(points: Sequence[Point]) -> list[Tick]:
    """Return the ticks for these points: at full minutes, hours or days, if any fit."""
    stretches = list(_stretches(points))
    for step in STEPS:
        found = [
            tick for first, last in stretches for tick in _within(first, last, step)
        ]
        if len(found) <= MOST:
            break
    if len(found) < 2:
        found = [(point.seconds, point.time) for point in (points[0], points[-1])]
        step = 1
    return list(_named(found, step))


def _stretches(points: Sequence[Point]) -> Iterator[tuple[Point, Point]]:
    """Yield the first and the last point of each run."""
    first = last = points[0]
    for point in points:
        if point.run != last.run:
            yield first, last
            first = point
        last = point
    yield first, last


def _within(first: Point, last: Point, step: int) -> Iterator[tuple[float, float]]:
    """Yield seconds and Unix time of the ticks in a run."""
    zone = time.localtime(first.time).tm_gmtoff
    length = last.time - first.time
    moment = math.ceil((first.time + zone) / step) * step - zone
    while moment <= last.time:
        share = (moment - first.time) / length if length else 0.0
        yield first.seconds + share * (last.seconds - first.seconds), moment
        moment += step


def _named(found: list[tuple[float, float]], step: int) -> Iterator[Tick]:
    """Name the ticks, with the date where a new day begins."""
    clock = "%H:%M:%S" if step < MINUTE else "%H:%M"
    before = ""
    for seconds, moment in found:
        local = time.localtime(moment)
        date = time.strftime("%b %d", local)
        text = date if step >= DAY else time.strftime(clock, local)
        if step < DAY and date != before:
            text += f"\n{date}"
        before = date
        yield Tick(seconds, text)
