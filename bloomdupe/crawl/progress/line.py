"""Progress: the log line on the state of a crawl."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.crawl.progress.pace import (
    duration,
    per_minute,
    size,
    time_to_fill,
    time_to_go,
)

if TYPE_CHECKING:
    from bloomdupe.crawl.progress.history import Point

__all__ = ["pages_lost", "progress"]

LITTLE = 0.001


def progress(
    last: Point | None, first: Point | None, now: Point, capacity: int, longest: float
) -> str:
    """Return one line; rates are since ``last``, forecasts since ``first``.

    ``capacity`` is the expected number of URLs, ``longest`` the seconds of the run's
    longest checkpoint.
    """
    pages = f"{now.pages} pages"
    rate = per_minute(last, now)
    if rate is not None:
        pages += f", {rate:.0f} a minute"
    pending = f"{now.pending} pending in {now.slots} slot{'s' * (now.slots != 1)}"
    if now.resting:
        pending += f" ({now.resting} resting)"
    if now.later:
        pending += f", {now.later} for later"
    left = time_to_go(first, now)
    if left:
        pending += f", {duration(left)} to go"
    elif left is None and first is not None:
        pending += ", and more come than go"
    parts = [
        pages,
        pending,
        f"{now.duplicates} duplicates skipped",
        f"{now.failed} failed",
        f"filter {now.seen / capacity:.1%} full, {pages_lost(now.loss)}",
        f"longest checkpoint {longest * 1000:.0f} ms",
    ]
    if now.disk:
        disk = f"disk {size(now.disk)}, {size(now.free)} free"
        filled = time_to_fill(first, now)
        parts.append(disk if filled is None else f"{disk}, full in {duration(filled)}")
    return "; ".join(parts)


def pages_lost(expected: float) -> str:
    """Return the expected number of pages that the filter has lost, in words."""
    return "no page lost" if expected < LITTLE else f"{expected:.3g} pages lost"
