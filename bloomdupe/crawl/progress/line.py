"""The lines in the log on the state of a crawl: progress, and warnings in good time."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from bloomdupe.crawl.progress.pace import (
    duration,
    per_minute,
    plural,
    size,
    time_to_fill,
    time_to_go,
)
from bloomdupe.store.platform import memory_of_group, memory_of_machine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bloomdupe.crawl.progress.history import Point
    from bloomdupe.filter.bloom import BloomFilter


LITTLE = 0.001
MOST_REASONS = 4
"""Reasons in the line, those of the most failures."""
LONG = 1.0
"""Seconds from which on a checkpoint is in the line."""


def progress(
    last: Point | None,
    first: Point | None,
    now: Point,
    reasons: Mapping[str, int],
    *,
    stays: bool = False,
) -> str:
    """Return a line; rates are since ``last``, forecasts since ``first``.

    ``reasons`` are numbers of failed requests, the largest first. ``stays`` says that
    the crawl stays open when nothing is pending.
    """
    counts = [*_counts(last, now, reasons)]
    if stays and not (_unfinished(now) or now.later):
        counts.append("waiting for URLs")
    else:
        counts += _pending(last, first, now)
    return ", ".join(counts)


def news(now: Point, longest: float) -> Iterator[str]:
    """Yield what the line says once more; ``longest``: seconds of a checkpoint."""
    if now.loss >= LITTLE:
        yield pages_lost(now.loss)
    if longest >= LONG:
        yield f"longest checkpoint {longest:.1f} s"


def _counts(
    last: Point | None, now: Point, reasons: Mapping[str, int]
) -> Iterator[str]:
    rate = per_minute(last, now)
    yield plural(now.pages, "page") + ("" if rate is None else f" ({rate:,.0f}/min)")
    if now.failed:
        most = [f"{n:,} {why}" for why, n in islice(reasons.items(), MOST_REASONS)]
        more = ["..."] if len(reasons) > MOST_REASONS else []
        yield f"{now.failed:,} failed ({', '.join([*most, *more])})"


def _pending(last: Point | None, first: Point | None, now: Point) -> Iterator[str]:
    rate = per_minute(last, now)
    resting = f" ({now.resting:,} resting)" if now.resting else ""
    yield f"{now.pending:,} pending on {plural(now.slots, 'host')}{resting}"
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


FILTER_SHARE = 0.8
"""Share of the expected URLs."""
MEMORY_SHARE = 0.85
"""Share of the memory that there is. Scrapy warns of its own limit."""
DISK_SECONDS = 7_200.0
"""Least number of seconds that the disk must last."""
DISK_BYTES = 256 * 10**6
"""Least number of free bytes."""


def warnings(
    seen: BloomFilter, first: Point | None, now: Point
) -> Iterator[tuple[str, str]]:
    """Yield what grows short, and the warning; ``first`` is some minutes ago."""
    for name, text in (
        ("filter", _filter(seen, first, now)),
        ("disk", _disk(first, now)),
        ("memory", _memory(seen, now)),
    ):
        if text is not None:
            yield name, text


def _filter(seen: BloomFilter, first: Point | None, now: Point) -> str | None:
    capacity = seen.capacity
    if now.seen < FILTER_SHARE * capacity or seen.layer_count > 1:
        return None
    full = f"BLOOMDUPE_EXPECTED_URLS = {capacity}: the filter has {now.seen}"
    if first is not None and first.seen < now.seen < capacity:
        speed = (now.seen - first.seen) / (now.time - first.time)
        left = duration((capacity - now.seen) / speed)
        full += f", and it is full in {left} at this rate"
    more = seen.parameters.geometry(1).bits // 8
    return f"{full}. Then it grows, and takes up to {size(more)} more of memory"


def _disk(first: Point | None, now: Point) -> str | None:
    if not now.disk:
        return None
    left = time_to_fill(first, now)
    if now.free >= DISK_BYTES and (left is None or left >= DISK_SECONDS):
        return None
    free = f"{size(now.free)} are free on the disk of JOBDIR"
    if left is not None:
        free += f", enough for {duration(left)} at this rate"
    return (
        f"{free}: make room, or the crawl is closed with the reason"
        " frontier_disk_full. The same command goes on from there"
    )


def _memory(seen: BloomFilter, now: Point) -> str | None:
    total, free = memory_of_machine()
    limits = [("this machine", total - free, total)]
    group = memory_of_group()
    if group is not None:
        limits.insert(0, ("the control group (memory.max)", now.memory, group))
    for name, used, most in limits:
        if used > MEMORY_SHARE * most:
            return (
                f"{size(used)} of memory are in use, and {name} allows {size(most)}:"
                " raise that, or stop the crawl and go on in a new process. Of it the"
                f" filter takes {size(seen.memory_bytes)} (BLOOMDUPE_EXPECTED_URLS)"
            )
    return None
