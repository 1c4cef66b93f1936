"""The lines in the log on the state of a crawl: progress, and warnings in good time."""

from __future__ import annotations

import resource
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
from bloomdupe.store.platform import (
    memory_of_group,
    memory_of_machine,
    process_memory,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scrapy.settings import BaseSettings

    from bloomdupe.crawl.progress.history import Point
    from bloomdupe.filter.bloom import BloomFilter


LITTLE = 0.001
MOST_REASONS = 4
"""Reasons in the line, those of the most failures."""
LONG = 1.0
"""Seconds from which on a checkpoint is in the line."""


class ProgressLine:
    """Makes the lines of a run; each piece of news is in one line only.

    Where room grows short, :class:`Room` says so.
    """

    def __init__(self, *, stays: bool = False) -> None:
        """``stays`` says that the crawl stays open when nothing is pending."""
        self._stays = stays
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
        news = [one for one in self._news(now, longest) if one not in self._said]
        self._said.update(news)
        counts = [*_counts(last, now, reasons)]
        if self._stays and not (_unfinished(now) or now.later):
            counts.append("waiting for URLs")
        else:
            counts += _pending(last, first, now)
        return "; ".join([", ".join(counts), *news])

    def _news(self, now: Point, longest: float) -> Iterator[str]:
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
"""Share of the memory limit of the process."""
DISK_SECONDS = 7_200.0
"""Least number of seconds that the disk must last."""
DISK_BYTES = 256 * 10**6
"""Least number of free bytes."""


class Room:
    """Gives each warning once in a run."""

    def __init__(self, scrapy: BaseSettings, seen: BloomFilter) -> None:
        self._seen = seen
        self._said: set[str] = set()
        self._most = 0
        if scrapy.getbool("MEMUSAGE_ENABLED"):
            self._most = scrapy.getint("MEMUSAGE_LIMIT_MB") << 20

    def warnings(self, first: Point | None, now: Point) -> Iterator[str]:
        """Yield new warnings, given a point some minutes ago and the last point."""
        for name, text in (
            ("filter", self._filter(first, now)),
            ("disk", self._disk(first, now)),
            ("memory", self._memory(now)),
        ):
            if text is not None and name not in self._said:
                self._said.add(name)
                yield text

    def _filter(self, first: Point | None, now: Point) -> str | None:
        capacity = self._seen.capacity
        if now.seen < FILTER_SHARE * capacity or self._seen.layer_count > 1:
            return None
        full = f"BLOOMDUPE_EXPECTED_URLS = {capacity}: the filter has {now.seen}"
        left = None
        if first is not None and now.seen > first.seen:
            speed = (now.seen - first.seen) / (now.time - first.time)
            left = (capacity - now.seen) / speed
        if left is not None and left > 0:
            full += f", and it is full in {duration(left)} at this rate"
        more = self._seen.parameters.geometry(1).bits // 8
        return f"{full}. Then it grows, and takes up to {size(more)} more of memory"

    def _disk(self, first: Point | None, now: Point) -> str | None:
        if not now.disk:
            return None
        left = time_to_fill(first, now)
        soon = left is not None and left < DISK_SECONDS
        if not soon and now.free >= DISK_BYTES:
            return None
        free = f"{size(now.free)} are free on the disk of JOBDIR"
        if left is not None:
            free += f", enough for {duration(left)} at this rate"
        return (
            f"{free}: make room, or the crawl is closed with the reason"
            " frontier_disk_full. The same command goes on from there"
        )

    def _memory(self, now: Point) -> str | None:
        for name, used, most in self._limits(now):
            if used > MEMORY_SHARE * most:
                return (
                    f"{size(used)} of memory are in use, and {name} allows"
                    f" {size(most)}: raise that, or stop the crawl and go on in a"
                    " new process. Of it the filter takes"
                    f" {size(self._seen.memory_bytes)} (BLOOMDUPE_EXPECTED_URLS)"
                )
        return None

    def _limits(self, now: Point) -> Iterator[tuple[str, int, int]]:
        """Yield what limits the memory, how much is in use, and the limit, in bytes."""
        if self._most:
            yield "MEMUSAGE_LIMIT_MB", now.memory, self._most
        most, _ = resource.getrlimit(resource.RLIMIT_AS)
        if most != resource.RLIM_INFINITY:
            yield "ulimit -v", process_memory().addresses, most
        group = memory_of_group()
        if group is not None:
            yield "the control group (memory.max)", now.memory, group
        total, free = memory_of_machine()
        yield "this machine", total - free, total
