"""Watch: looks at a running crawl every few seconds, and logs its state."""

from __future__ import annotations

import heapq
import math
import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.crawl.progress.history import History, Point
from bloomdupe.crawl.progress.line import news, progress, warnings
from bloomdupe.crawl.progress.pace import LONGEST, RECENT, recent, since, time_to_go
from bloomdupe.errors import StoreError
from bloomdupe.inside_scrapy.engine import Timer
from bloomdupe.printable import logger_of
from bloomdupe.store.platform import process_memory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bloomdupe.crawl.engines.checkpoint import Checkpoint
    from bloomdupe.crawl.engines.session import Session
    from bloomdupe.crawl.progress.metrics import Metrics
    from bloomdupe.crawl.state.failures import Failures
    from bloomdupe.frontier.frontier import Frontier
    from bloomdupe.inside_scrapy.engine import EngineAccess
    from bloomdupe.settings import JobSettings


logger = logger_of(__name__)


MOST = 20
"""Slots that are named, those with the most pending requests."""


class SlotLook(NamedTuple):
    """The slots at a moment."""

    resting: Mapping[str, float]
    """Slots with pending requests that rest, until Unix times."""
    slowest: float
    """Seconds that the slowest slot takes at least, by its delay and its rest."""
    largest: list[tuple[str, int]]
    """The slots with the most pending requests, and their numbers of requests."""


def look_at_slots(
    frontier: Frontier, engine: EngineAccess, resting: Mapping[str, float]
) -> SlotLook:
    """Look at all slots with pending requests.

    A slot with a delay takes it for each of its pending requests, however fast it
    answers.
    """
    now, slots = time.time(), frontier.pending_by_slot
    slowest = max(resting.values(), default=now) - now
    if engine.has_delays:
        for slot, pending in slots():
            rest = resting.get(slot, now) - now
            slowest = max(slowest, rest + pending * engine.delay_of(slot))
    largest = heapq.nlargest(MOST, slots(), key=lambda one: one[1])
    return SlotLook(resting, min(slowest, LONGEST), largest)


GLANCE = 5.0
"""Seconds between two looks."""
PART_OF_TIME = 0.01
"""Greatest part of the time to spend on looks at all slots: there may be a million."""


def glance_of(settings: JobSettings) -> float:
    """Return the seconds between two looks with these settings."""
    return min(GLANCE, settings.progress_interval or GLANCE)


class Watch:
    """Gives a sign of life and adds a point to the history every few seconds.

    Line, warnings, metrics and history say the same: what that point holds. A point is
    written by the next checkpoint that has any other data to write. If the store is no
    longer there, the crawl stops.
    """

    def __init__(
        self,
        session: Session,
        frontier: Frontier,
        counts: Checkpoint,
        failures: Failures | None,
    ) -> None:
        settings = session.settings
        self._stats = session.stats
        self._extra = {"spider": session.spider}
        self._fail = session.stopping.fail
        self._frontier = frontier
        self._counts = counts
        self._failures = failures
        self._access, self._rules = session.access, session.slots
        self._slots: SlotLook
        self._slots_due = 0.0
        store = frontier.store
        self.history = None if store is None else History(store)
        self.longest = 0.0
        """Seconds of the longest checkpoint of the run."""
        self._longest_since = 0.0
        self._interval = settings.progress_interval
        self._glance = glance_of(settings)
        self._recent: deque[Point] = deque(maxlen=int(RECENT / GLANCE) + 1)
        self._stays = settings.stay
        self._said: set[str] = set()
        self._checkpoint_at: float | None = None
        self._tick = Timer(self._on_tick)
        self._line_due = self._point_due = 0.0
        self._open = False
        self._figures: dict[str, Any] = {}
        self._metrics: Metrics | None = None
        self._address = settings.metrics
        if self._address is not None:
            from bloomdupe.crawl.progress.metrics import Metrics

            place = "" if store is None else str(store.path.parent.absolute())
            name = session.spider.name
            self._metrics = Metrics(name, place, lambda: self._figures)

    def begin_run(self) -> None:
        """Begin the run, because it has work to do; a second call changes nothing."""
        if self._recent:
            return
        if self.history is not None:
            self.history.begin_run(self._counts.totals.runs)
        self._look()
        if self._open:
            self._begin()

    def begin(self) -> None:
        """Begin to look, now or when there is work: the crawl is open."""
        self._open = True
        self._beat()
        self._tick.set(self._glance)
        if self._recent:
            self._begin()

    def _begin(self) -> None:
        self._line_due = time.monotonic() + self._interval
        if self._metrics is not None and self._address is not None:
            self._metrics.begin(*self._address)

    def end(self) -> None:
        """Stop looking."""
        self._tick.cancel()
        if self._metrics is not None:
            self._metrics.end()

    def end_run(self, reason: str) -> None:
        """Record how the run ends, before its last checkpoint."""
        if self.history is not None:
            # The job stands like this until its next run.
            self._look(whole=True)
            self.history.end_run(reason)

    def wrote(self, seconds: float) -> None:
        """Record how long a checkpoint took."""
        self.longest = max(self.longest, seconds)
        self._longest_since = max(self._longest_since, seconds)
        self._checkpoint_at = time.time()

    def _point(self, slots: SlotLook) -> Point:
        """Return a point for the present moment."""
        frontier = self._frontier
        seen, store = frontier.seen, frontier.store
        totals = self._counts.totals
        return Point(
            time=round(time.time(), 3),
            run=totals.runs,
            seconds=round(self._counts.seconds, 1),
            pages=totals.pages,
            bytes=totals.bytes,
            items=totals.items,
            duplicates=self._counts.duplicates,
            seen=len(seen),
            pending=frontier.pending,
            leased=frontier.leased,
            slots=len(frontier.slots),
            failed=0 if self._failures is None else len(self._failures),
            statuses=totals.statuses_by_hundred,
            fpp=seen.current_fpp(),
            loss=seen.expected_loss(),
            checkpoint=round(self._longest_since, 4),
            disk=0 if store is None else store.disk_bytes(),
            free=0 if store is None else store.free_bytes(),
            memory=process_memory(),
            later=frontier.waiting,
            resting=len(slots.resting),
            slowest=round(slots.slowest, 1),
        )

    def _look(self, *, whole: bool = False) -> Point:
        slots = self._look_at_slots(whole=whole)
        point = self._point(slots)
        self._longest_since = 0.0
        self._recent.append(point)
        self._point_due = time.monotonic() + GLANCE
        if self._metrics is not None:
            # Another thread reads it, so it is not changed any more.
            self._figures = self._figures_at(point, slots)
        if self.history is not None:
            self.history.add(point)
        return point

    def _look_at_slots(self, *, whole: bool) -> SlotLook:
        """Look at all slots, unless that was just done, and takes long."""
        now = time.monotonic()
        if whole or now >= self._slots_due:
            resting = self._rules.resting()
            self._slots = look_at_slots(self._frontier, self._access, resting)
            ended = time.monotonic()
            self._slots_due = ended + (ended - now) / PART_OF_TIME
        return self._slots

    def _figures_at(self, point: Point, slots: SlotLook) -> dict[str, Any]:
        frontier, get = self._frontier, self._stats.get_value
        counts, hosts = self._counts.totals.by_slot, dict(slots.largest)
        to_go = None if self._stays else time_to_go(recent([*self._recent]), point)
        return {
            **point._asdict(),
            "responses": {f"{n}xx": one for n, one in enumerate(point.statuses, 1)},
            "capacity": frontier.seen.capacity,
            "checkpoint_at": self._checkpoint_at,
            "to_go": math.inf if to_go is None else to_go,
            "next_due": frontier.next_due if frontier.waiting else None,
            "failures": self._reasons,
            "retries": get("retry/count", 0),
            "revisits": get("bloomdupe/revisits", 0),
            "host_pending": hosts,
            "host_pages": {slot: counts.get(slot, [0])[0] for slot in hosts},
            "host_resting": {slot: int(slot in slots.resting) for slot in hosts},
        }

    @property
    def _reasons(self) -> dict[str, int]:
        return {} if self._failures is None else self._failures.by_reason

    def _on_tick(self) -> None:
        self._beat()
        try:
            if self._recent:
                self._see()
        except StoreError as error:
            self._fail(error)
        else:
            self._tick.set(self._glance)

    def _beat(self) -> None:
        """Show that the reactor runs, also while nothing changes."""
        if self._frontier.store is not None:
            self._frontier.store.beat(time.time())

    def _see(self) -> None:
        now = time.monotonic()
        line_due = self._interval and now >= self._line_due
        if not line_due and now < self._point_due:
            return
        point, points = self._look(), [*self._recent]
        first = recent(points)
        if line_due:
            self._line_due += self._interval
            last, reasons = since(points, self._interval), self._reasons
            said = [progress(last, first, point, reasons, stays=self._stays)]
            said += [one for one in news(point, self.longest) if self._is_new(one)]
            line = "; ".join(said)
            logger.info("%(progress)s", {"progress": line}, extra=self._extra)
        for name, warning in warnings(self._frontier.seen, first, point):
            if self._is_new(name):
                logger.warning("%(room)s", {"room": warning}, extra=self._extra)

    def _is_new(self, news: str) -> bool:
        """Whether it was not said in this run; it is said now."""
        known = news in self._said
        self._said.add(news)
        return not known
