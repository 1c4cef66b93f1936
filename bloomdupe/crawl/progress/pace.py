"""Pace: how fast a crawl goes, for how long it has work and room, and such figures."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bloomdupe.crawl.progress.history import Point


MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0
LONGEST = 100 * DAY
"""Seconds; no forecast goes beyond."""
RECENT = 600.0
"""Seconds that a forecast looks back at most."""
SLACK = 0.9
"""A timer may be late, so a point that is a little younger will do."""
LITTLE = 0.001
"""Pages; fewer count as none."""


def since(points: Sequence[Point], seconds: float) -> Point | None:
    """Return the point of the last run that is about so many seconds old.

    Without a point that old, the first point of the run; None if there is only one
    point.
    """
    last = points[-1]
    found = None
    for point in reversed(points):
        if point.run != last.run:
            break
        if point is not last:
            found = point
        if last.time - point.time >= SLACK * seconds:
            break
    return found


def recent(points: Sequence[Point]) -> Point | None:
    """Return the point from which on the last run's balance counts.

    It is as old as a quarter of the run, so that the beginning does not count for long,
    and ten minutes at most.
    """
    first = since(points, LONGEST)
    if first is None:
        return None
    return since(points, min(RECENT, (points[-1].time - first.time) / 4))


def per_minute(first: Point | None, last: Point) -> float | None:
    """Return the pages a minute between two points; None if that is unknown."""
    if first is None or last.time <= first.time:
        return None
    return (last.pages - first.pages) / (last.time - first.time) * MINUTE


def rates(points: Sequence[Point], begin: float, parts: int) -> list[float]:
    """Return pages a minute in equal parts of the time from ``begin`` to the end.

    Between two points the pace is taken to be even; between two runs nothing is done.
    """
    end = points[-1].time
    step = (end - begin) / parts
    if step <= 0:
        return [0.0] * parts
    found = [0.0] * parts
    for before, after in pairwise(points):
        length = after.time - before.time
        if after.run != before.run or length <= 0:
            continue
        pages = max(0, after.pages - before.pages)
        part = max(0, int((before.time - begin) / step))
        while part < parts and begin + part * step < after.time:
            start = max(before.time, begin + part * step)
            stop = min(after.time, begin + (part + 1) * step)
            found[part] += max(0.0, stop - start) / length * pages / step * MINUTE
            part += 1
    return found


def time_to_go(first: Point | None, last: Point) -> float | None:
    """Return the seconds until nothing is pending any more, at the present rate.

    None while more requests come than go. Counts pending requests and those in
    progress. It takes as long as the slowest slot, at least.
    """
    if first is None or last.time <= first.time:
        return None
    remaining = last.pending + last.in_flight
    done = first.pending + first.in_flight - remaining
    if done <= 0:
        return 0.0 if not remaining else None
    left = max(last.slowest, remaining * (last.time - first.time) / done)
    return left if left < LONGEST else None


def time_to_fill(first: Point | None, last: Point) -> float | None:
    """Return in how many seconds the disk is full; None: not within a day, or unknown.

    A minute of data is the least that allows a forecast.
    """
    seconds = 0.0 if first is None else last.time - first.time
    if first is None or seconds < SLACK * MINUTE or first.free <= last.free:
        return None
    left = last.free * seconds / (first.free - last.free)
    return left if left < DAY else None


def clock(moment: float, now: float) -> str:
    """Return a Unix time as clocks here show it; with the date if it is far from now.

    As in the log, it is local time: ``03:12:40``, ``2026-11-23 03:12:40 CET``.
    """
    far = abs(moment - now) >= DAY / 2
    return when(moment) if far else time.strftime("%H:%M:%S", time.localtime(moment))


def when(moment: float) -> str:
    """Return a Unix time as clocks here show it, with the date and the time zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(moment))


def duration(seconds: float) -> str:
    """Format seconds in their largest unit: ``45 s``, ``12 min``, ``3.5 h``."""
    if seconds < 2 * MINUTE:
        return f"{seconds:.0f} s"
    if seconds < 2 * HOUR:
        return f"{seconds / MINUTE:.0f} min"
    if seconds < 2 * DAY:
        return f"{seconds / HOUR:.1f} h"
    return f"{seconds / DAY:.1f} days"


def size(number: float) -> str:
    """Format a number of bytes: ``512 B``, ``12.3 MB``."""
    units = ("B", "kB", "MB", "GB", "TB")
    power = 0
    while number >= 1000 and power < len(units) - 1:
        number /= 1000
        power += 1
    return f"{number:.0f} B" if not power else f"{number:.1f} {units[power]}"


def plural(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: ``1 page``, ``2,000 pages``.

    ``many`` is the text for every number but 1, by default ``one`` with an s.
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def pages_lost(expected: float) -> str:
    """Return the expected number of pages that the filter has lost, in words."""
    return "no page lost" if expected < LITTLE else f"{expected:.3g} pages lost"
