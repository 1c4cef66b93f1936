"""Watch: samples a running crawl every few seconds, and logs its state."""

from __future__ import annotations

import heapq
import math
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.progress.history import History, Point
from bloomdupe.crawl.progress.pace import (
    LITTLE,
    LONGEST,
    RECENT,
    duration,
    pages_lost,
    per_minute,
    plural,
    recent,
    since,
    size,
    time_to_fill,
    time_to_go,
)
from bloomdupe.errors import StoreError
from bloomdupe.inside_scrapy.engine import Timer
from bloomdupe.printable import logger_of
from bloomdupe.store.platform import memory_of_group, memory_of_machine, process_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bloomdupe.crawl.engines.crawl_engine import CrawlEngine
    from bloomdupe.crawl.progress.metrics import Metrics
    from bloomdupe.filter.bloom import BloomFilter


logger = logger_of(__name__)


MOST_REASONS = 4
"""Reasons in the line, those of the most failures."""
LONG = 1.0
"""Seconds from which on a checkpoint is in the line."""

MOST = 20
"""Slots that are named, those with the most pending requests."""


SAMPLE_INTERVAL = 5.0
"""Seconds between two samples."""
PART_OF_TIME = 0.01
"""Greatest part of the time to spend on samples of all slots: there may be a
million."""


class Watch:
    """Sends a heartbeat and adds a point to the history every few seconds.

    Line, warnings, metrics and history say the same: they read that point. A point is
    written by the next checkpoint that has any other data to write. If the store is no
    longer there, the crawl stops.
    """

    def __init__(self, engine: CrawlEngine) -> None:
        session, settings = engine.session, engine.settings
        self._engine, self._session = engine, session
        self._frontier, self._failures = engine.frontier, engine.failures
        # As of the last sample of all slots.
        self._backing_off: Mapping[str, float] = {}
        """Slots with pending requests that back off, until Unix times."""
        self._slowest = 0.0
        """Seconds that the slowest slot takes at least, by its delay and its
        backoff."""
        self._largest: list[tuple[str, int]] = []
        """The slots with the most pending requests, and their numbers of requests."""
        self._slots_due = 0.0
        store = engine.frontier.store
        self.history = None if store is None else History()
        self.longest = 0.0
        """Seconds of the longest checkpoint of the run."""
        self._longest_since = 0.0
        self._interval = settings.progress_interval
        self._every = min(SAMPLE_INTERVAL, self._interval or SAMPLE_INTERVAL)
        self._recent: deque[Point] = deque(maxlen=int(RECENT / SAMPLE_INTERVAL) + 1)
        self._stays = settings.stay
        self._said: set[str] = set()
        self._checkpoint_at: float | None = None
        self._tick = Timer(self._on_tick)
        self._line_due = 0.0
        self._address = settings.metrics
        self._metrics: Metrics | None = None
        if self._address is not None:
            from bloomdupe.crawl.progress.metrics import Metrics

            place = "" if store is None else str(store.path.parent.absolute())
            self._metrics = Metrics(session.spider.name, place)

    def begin(self) -> None:
        """Begin to sample: the crawl is open."""
        self._heartbeat()
        self._tick.set(self._every)
        self._line_due = time.monotonic() + self._interval
        if self._metrics is not None and self._address is not None:
            self._metrics.begin(*self._address)

    def end(self) -> None:
        """Stop sampling."""
        self._tick.cancel()
        if self._metrics is not None:
            self._metrics.end()

    def wrote(self, seconds: float) -> None:
        """Record how long a checkpoint took."""
        self.longest = max(self.longest, seconds)
        self._longest_since = max(self._longest_since, seconds)
        self._checkpoint_at = time.time()
        if self._engine.durable:
            self._session.stats.inc_value("bloomdupe/checkpoints")

    def _point(self, how: str) -> Point:
        """Return a point for the present moment."""
        frontier = self._frontier
        seen, store = frontier.seen.info(), frontier.store
        totals = self._engine.checkpoint.totals
        return Point(
            time=round(time.time(), 3),
            run=totals.runs,
            seconds=round(self._engine.checkpoint.seconds, 1),
            pages=totals.pages,
            items=totals.items,
            duplicates=self._engine.checkpoint.duplicates,
            seen=seen.keys,
            pending=frontier.pending,
            in_flight=frontier.unacked,
            slots=frontier.slot_count,
            failed=len(self._failures),
            fpp=seen.current_fpp,
            loss=seen.expected_loss,
            checkpoint=round(self._longest_since, 4),
            disk=seen.disk_bytes,
            free=0 if store is None else store.free_bytes(),
            memory=process_memory(),
            delayed=frontier.waiting,
            backing_off=len(self._backing_off),
            slowest=round(self._slowest, 1),
            how=how,
        )

    def sample(self, how: str = "", *, begins: bool = False) -> Point:
        """Sample the crawl when the run ``begins``, and then every few seconds.

        A run ends with a last sample, which says ``how``. The job stands like this
        until its next run.
        """
        self._sample_slots(complete=bool(how))
        point = self._point(how)
        self._longest_since = 0.0
        self._recent.append(point)
        if self._metrics is not None:
            self._metrics.figures = self._figures_at(point)
        if self.history is not None:
            self.history.add(point, begins=begins)
        return point

    def _sample_slots(self, *, complete: bool) -> None:
        """Sample all slots, unless that was just done, and takes long.

        A slot with a delay takes it for each of its pending requests, however fast it
        answers.
        """
        begun, now = time.monotonic(), time.time()
        if begun < self._slots_due and not complete:
            return
        slots, access = self._frontier.pending_by_slot, self._session.access
        self._backing_off = backing_off = self._session.slots.backing_off()
        slowest = max(backing_off.values(), default=now) - now
        if access.has_delays:
            for slot, pending in slots():
                wait = backing_off.get(slot, now) - now
                slowest = max(slowest, wait + pending * access.delay_of(slot))
        self._slowest = min(slowest, LONGEST)
        self._largest = heapq.nlargest(MOST, slots(), key=lambda one: one[1])
        ended = time.monotonic()
        self._slots_due = ended + (ended - begun) / PART_OF_TIME

    def _figures_at(self, point: Point) -> dict[str, Any]:
        frontier, get = self._frontier, self._session.stats.get_value
        totals, hosts = self._engine.checkpoint.totals, dict(self._largest)
        to_go = None if self._stays else time_to_go(recent([*self._recent]), point)
        return {
            **point._asdict(),
            "bytes": totals.bytes,
            "responses": totals.by_class,
            "capacity": frontier.seen.capacity,
            "checkpoint_at": self._checkpoint_at,
            "to_go": math.inf if to_go is None else to_go,
            "next_due": frontier.next_due if frontier.waiting else None,
            "failures": self._failures.by_reason,
            "retries": get("retry/count", 0),
            "revisits": get("bloomdupe/revisits", 0),
            "host_pending": hosts,
            "host_pages": {slot: totals.by_slot.get(slot, [0])[0] for slot in hosts},
            "host_backing_off": {
                slot: int(slot in self._backing_off) for slot in hosts
            },
        }

    def _on_tick(self) -> None:
        self._heartbeat()
        try:
            if self._recent:
                self._see()
        except StoreError as error:
            self._session.stopping.fail(error)
        else:
            self._tick.set(self._every)

    def _heartbeat(self) -> None:
        """Show that the reactor runs, also while nothing changes."""
        if self._frontier.store is not None:
            self._frontier.store.heartbeat(time.time())

    def _see(self) -> None:
        now = time.monotonic()
        point, points = self.sample(), [*self._recent]
        first = recent(points)
        if self._interval and now >= self._line_due:
            self._line_due = max(self._line_due + self._interval, now)
            news = [pages_lost(point.loss)] if point.loss >= LITTLE else []
            if self.longest >= LONG:
                news.append(f"longest checkpoint {self.longest:.1f} s")
            figures = ", ".join(self._progress(points, first))
            line = "; ".join([figures, *filter(self._is_new, news)])
            logger.info("%(progress)s", {"progress": line})
        for name, warning in warnings(self._frontier.seen, first, point):
            if self._is_new(name):
                logger.warning("%(room)s", {"room": warning})

    def _progress(self, points: list[Point], first: Point | None) -> Iterator[str]:
        """Yield the figures of a line; forecasts are since ``first``."""
        now, reasons = points[-1], self._failures.by_reason
        rate = per_minute(since(points, self._interval), now)
        pace = "" if rate is None else f" ({rate:,.0f}/min)"
        yield plural(now.pages, "page") + pace
        if now.failed:
            most = [f"{n:,} {why}" for why, n in reasons.most_common(MOST_REASONS)]
            more = ["..."] if len(reasons) > MOST_REASONS else []
            yield f"{now.failed:,} failed ({', '.join([*most, *more])})"
        if self._stays and not (now.pending or now.in_flight or now.delayed):
            yield "waiting for URLs"
            return
        slots, backing_off = plural(now.slots, "host"), ""
        if now.backing_off:
            backing_off = f" ({now.backing_off:,} backing off or paused)"
        yield f"{now.pending:,} pending on {slots}{backing_off}"
        if rate is not None and round(rate) == 0 and now.in_flight:
            yield f"{now.in_flight:,} in flight"
        if now.delayed:
            yield f"{now.delayed:,} delayed"
        left = time_to_go(first, now)
        if left:
            yield f"{duration(left)} to go"
        elif first is not None and (
            now.pending + now.in_flight > first.pending + first.in_flight
        ):
            yield "and more come than go"

    def _is_new(self, news: str) -> bool:
        """Whether it was not said in this run; it is said now."""
        known = news in self._said
        self._said.add(news)
        return not known


MEMORY_SHARE = 0.85
"""Share of the memory that there is. Scrapy warns of its own limit."""
DISK_SECONDS = 7_200.0
"""Least number of seconds that the disk must last."""
DISK_BYTES = 256 * 10**6
"""Least number of free bytes."""


def warnings(
    seen: BloomFilter, first: Point | None, now: Point
) -> list[tuple[str, str]]:
    """Return scarce resources, and the warnings; ``first`` is some minutes ago."""
    found = {
        "disk": _disk(first, now),
        "memory": _memory(seen, now),
    }
    return [(name, text) for name, text in found.items() if text is not None]


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
