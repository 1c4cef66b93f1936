"""FrontierScheduler: the frontier in Scrapy's SCHEDULER slot."""

from __future__ import annotations

import json
import logging
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.utils.job import job_dir
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.python import global_object_name

from bloomdupe.backoff import Backoff
from bloomdupe.cut import Cut
from bloomdupe.dupefilter import BloomDupeFilter
from bloomdupe.engine_access import EngineAccess, Timer
from bloomdupe.errors import (
    BloomDupeError,
    FilterFullError,
    StoreError,
    StoreMismatchError,
    UnserializableError,
)
from bloomdupe.failures import limit_of_memory, reason_of
from bloomdupe.frontier import Frontier
from bloomdupe.job import Job
from bloomdupe.leases import Leases
from bloomdupe.limits import SlotLimits
from bloomdupe.link_filter import attach_link_filter
from bloomdupe.memory import MemoryWatch
from bloomdupe.serializer import Serializer, url_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.dupefilters import BaseDupeFilter
    from twisted.internet.defer import Deferred
    from typing_extensions import Self

    from bloomdupe.bloom import BloomFilter
    from bloomdupe.line import Entry

__all__ = ["FrontierScheduler"]

logger = logging.getLogger(__name__)

REST = 0.01
"""Seconds for the crawl between the parts of a checkpoint that is too much at once."""

SHORTEST_ALARM = 0.001
"""Seconds; a slot that is ready sooner can wait that long."""


class FrontierScheduler(BaseScheduler):
    """Keeps what a crawl owes so that nothing is lost, however the process ends.

    With ``JOBDIR`` pending requests, requests under way and what has been seen are
    kept in one store, ``JOBDIR/bloomdupe``, and written together every
    ``BLOOMDUPE_CHECKPOINT_INTERVAL`` seconds and at the end. Without it they are
    kept in memory.

    Within a slot (host) the order is Scrapy's: priority, then newest first (or
    oldest first, if the class named by ``SCHEDULER_DISK_QUEUE``, or
    ``SCHEDULER_MEMORY_QUEUE`` without JOBDIR, is one of Scrapy's Fifo queues), start
    requests after others. Among slots, the one with the fewest requests under way
    is next.
    """

    def __init__(self, crawler: Crawler, dupefilter: BaseDupeFilter, job: Job) -> None:
        if crawler.stats is None:
            raise RuntimeError("the crawler has no stats yet")
        self._crawler = crawler
        self._stats = crawler.stats
        self._job = job
        self.df = dupefilter
        self._log_unserializable = crawler.settings.getbool("SCHEDULER_DEBUG")
        self._frontier: Frontier | None = None
        self._ours: BloomDupeFilter | None = None
        # Fingerprints of requests in memory only: what is lost in a crash must not
        # have been marked.
        self._unmarked: set[bytes] = set()
        self._failure: Exception | None = None
        self._tick = Timer(self._on_tick)
        self._alarm = Timer(self._on_alarm)
        self._memory_watch = MemoryWatch(self._out_of_memory)
        self._longest = 0.0
        self._unrestorable = 0

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the scheduler of a crawl from its settings."""
        if crawler.spider is None:
            raise RuntimeError("the crawler has no spider yet")
        dupefilter = load_object(crawler.settings["DUPEFILTER_CLASS"])
        return cls(
            crawler,
            build_from_crawler(dupefilter, crawler),
            Job.of(crawler.spider, crawler.settings),
        )

    # Opening and closing

    def open(self, spider: Spider) -> Deferred[None] | None:
        """Open or create the store, and take up what the last run left.

        Raises what :meth:`bloomdupe.BloomFilter.open` raises, and
        :class:`~bloomdupe.errors.EngineError`.
        """
        self._spider = spider
        self._engine = EngineAccess(self._crawler)
        self._engine.attach()
        settings = self._job.settings
        self._durable = settings.directory is not None
        self._serializer = Serializer(spider, pickles=settings.serializer == "pickle")
        opening = None
        if isinstance(self.df, BloomDupeFilter):
            seen = self.df.open_shared()
            if type(self.df).request_seen is BloomDupeFilter.request_seen:
                self._ours = self.df
        else:
            opening = self.df.open()
            seen = self._job.open_filter()
            if self._durable:
                self._warn_of_foreign_filter()
        try:
            self._check_queue_of_scrapy(seen)
            self._frontier = self._take_up(seen)
            self._timed(self._cut.commit)
        except BaseException:
            self._frontier = None
            seen.close()
            raise
        connect = self._crawler.signals.connect
        connect(self._leases.left_downloader, signals.request_left_downloader)
        if settings.max_retry_after:
            self._backoff = Backoff(self._engine, settings.max_retry_after)
            connect(self._backoff.response_downloaded, signals.response_downloaded)
        if type(self.df) is BloomDupeFilter:
            attach_link_filter(self._crawler, self._would_drop, self.df)
        self._engine.watch_failures(self._on_failed_download)
        self._engine.watch_outputs()
        self._memory_watch.begin()
        self._tick.set(settings.checkpoint_interval)
        return opening

    def _warn_of_foreign_filter(self) -> None:
        logger.warning(
            "DUPEFILTER_CLASS is %(filter)s, which keeps its marks apart from the"
            " pending requests: pages found shortly before a crash may count as seen"
            ' without being fetched. Only DUPEFILTER_CLASS = "bloomdupe.'
            'BloomDupeFilter" is safe against that.',
            {"filter": global_object_name(type(self.df))},
            extra={"spider": self._spider},
        )

    def _check_queue_of_scrapy(self, seen: BloomFilter) -> None:
        """Refuse a job in which requests wait that only Scrapy's scheduler can see."""
        jobdir = job_dir(self._crawler.settings)
        if jobdir is None or seen.record("frontier") is not None:
            return
        active = Path(jobdir, "requests.queue", "active.json")
        if active.exists() and json.loads(active.read_text("utf-8")):
            raise StoreMismatchError(
                f"JOBDIR: requests wait in {active.parent} that only Scrapy's own"
                ' scheduler can see: set SCHEDULER = "scrapy.core.scheduler.Scheduler"'
                " to go on with that crawl, or give the new one another JOBDIR"
            )

    def _take_up(self, seen: BloomFilter) -> Frontier:
        """See how the last run ended, and note that another one is on.

        A *generation* is a crawl from its start requests until it is finished, in
        however many runs.
        """
        kind = "DISK" if self._durable else "MEMORY"
        queue = self._crawler.settings[f"SCHEDULER_{kind}_QUEUE"]
        start_queue = self._crawler.settings[f"SCHEDULER_START_{kind}_QUEUE"]
        # Without a queue of their own, start requests are like all others.
        self._starts_apart = bool(start_queue)
        frontier = Frontier(
            seen,
            fifo=_is_fifo(queue),
            start_fifo=_is_fifo(start_queue or queue),
            wait=self._engine.wait,
        )
        self._limits = SlotLimits(self._job.settings, frontier, self._stats)
        self._cut = Cut(
            self._crawler,
            self._engine,
            frontier,
            self._serializer,
            self._job.settings,
            self._limits,
        )
        self._leases = Leases(frontier, self._engine, self._cut.settled)
        last = seen.notes.get("run")
        generation = seen.notes.get("generation", 1)
        self._resumed = last not in (None, "finished")
        if last == "finished":
            generation += 1
        self._generation = generation
        self._cut.take_up(self._leases, resumed=self._resumed)
        if not self._durable:
            return frontier
        seen.notes["run"] = "open"
        seen.notes["generation"] = generation
        if last is not None:
            logger.info(
                "Resuming crawl (%(queuesize)d requests scheduled); the last run"
                " %(ended)s",
                {
                    "queuesize": frontier.pending,
                    "ended": "was killed" if last == "open" else f"ended: {last}",
                },
                extra={"spider": self._spider},
            )
            self._stats.set_value("bloomdupe/resumed", frontier.pending)
        return frontier

    def close(self, reason: str) -> Deferred[None] | None:
        """Write the last checkpoint and release the store."""
        frontier, self._frontier = self._frontier, None
        if frontier is None:
            return None
        self._memory_watch.end()
        self._tick.cancel()
        self._alarm.cancel()
        self._crawler.signals.disconnect(
            self._leases.left_downloader, signals.request_left_downloader
        )
        self._settle(frontier)
        if self._failure is None:
            self._write(partial(self._cut.close, reason))
        for name, value in (
            ("pending", frontier.pending),
            ("unfinished", frontier.leased),
            ("unrestorable", self._unrestorable),
            ("checkpoint_seconds_max", round(self._longest, 4)),
        ):
            self._stats.set_value(f"bloomdupe/{name}", value)
        closing = self.df.close(reason)
        if not isinstance(self.df, BloomDupeFilter):
            frontier.seen.close()
        return closing

    # The life of a request

    def has_pending_requests(self) -> bool:
        """Whether any request waits."""
        return len(self) > 0

    def __len__(self) -> int:
        """Count the requests that wait."""
        return 0 if self._frontier is None else self._frontier.pending

    def enqueue_request(self, request: Request) -> bool:
        """Take in a request; False if it was dropped as a duplicate."""
        frontier = self._opened
        start = request is self._engine.start_request
        if start:
            self._engine.start_request = None
        try:
            accepted = self._accept(frontier, request, start=start)
        except (StoreError, MemoryError) as error:
            # It could not be looked up, so its parent must never count as done.
            self._fail(error)
            return False
        except FilterFullError as error:
            accepted = True
            self._stop_full(error)
        if accepted and frontier.due:
            self._checkpoint()
        return accepted

    def _accept(self, frontier: Frontier, request: Request, *, start: bool) -> bool:
        if self._ours is None:
            # It marks when it is asked, so the limits come first.
            if not request.dont_filter and (
                not self._within_limits(request) or self._seen_by_others(request)
            ):
                return False
            self._push(frontier, request)
            return True
        key, exact = self._ours.key_of(request)
        mark = None
        forced = request.dont_filter
        if start:
            skip, forced, mark = self._judge_start(key, forced=forced)
            if skip:
                self._stats.inc_value("bloomdupe/start_requests_skipped")
                return False
        seen = frontier.seen
        if not forced and self._is_seen(seen, key, exact=exact):
            self._ours.log(request, self._spider)
            return False
        if not forced and not self._within_limits(request):
            return False
        if self._push(frontier, request, (key, exact)):
            seen.add(key, exact=exact)
            if mark is not None:
                seen.add(mark)
        return True

    def _is_seen(self, seen: BloomFilter, key: bytes, *, exact: bool) -> bool:
        return key in self._unmarked or seen.contains(key, exact=exact)

    def _would_drop(self, request: Request) -> bool:
        """Whether a request would be dropped as a duplicate; for the link filter."""
        if self._frontier is None or self._ours is None:
            return False
        key, exact = self._ours.key_of(request)
        try:
            return self._is_seen(self._frontier.seen, key, exact=exact)
        except StoreError:
            return False  # it will fail again when the request is scheduled

    def _seen_by_others(self, request: Request) -> bool:
        """Ask a filter that is not ours."""
        if self.df.request_seen(request):
            self.df.log(request, self._spider)
            return True
        return False

    def _within_limits(self, request: Request) -> bool:
        """Whether its slot may have another one; what was taken in is followed."""
        return (
            not self._limits.on
            or "redirect_times" in request.meta
            or self._limits.room_for(self._engine.slot_of(request))
        )

    def _judge_start(
        self, key: bytes, *, forced: bool
    ) -> tuple[bool, bool, bytes | None]:
        """Decide on a start request: whether to skip or force it, and what to mark.

        In the first generation, a start request that has been seen has been
        scheduled. In a later one, that takes a mark of its own.
        """
        policy = self._job.settings.start_requests
        again = self._resumed or self._generation > 1
        if not again:
            return False, forced, None
        if policy == "always":
            return False, True, None
        seen = self._opened.seen
        if policy == "once" or self._generation == 1:
            return seen.contains(key), forced, None
        mark = b"start %d %b" % (self._generation, key)
        scheduled = seen.contains(mark)
        return scheduled and self._resumed, forced or not scheduled, mark

    def _push(
        self,
        frontier: Frontier,
        request: Request,
        key: tuple[bytes, bool] | None = None,
    ) -> bool:
        """Let a request wait; whether it will be stored, and should be marked."""
        slot = self._engine.slot_of(request)
        start = self._starts_apart and bool(request.meta.get("is_start_request"))
        payload: bytes | None = b""
        if self._durable:
            payload = self._dump(request)
        entry = frontier.push(
            slot, request.priority, payload, start=start, attachment=request
        )
        if not request.dont_filter:
            self._limits.took(slot)
        if payload is None:
            if key is not None:
                self._unmarked.add(key[0])
            self._leases.keep_parents(entry, key)
        where = "disk" if self._durable and payload is not None else "memory"
        self._stats.inc_value(f"scheduler/enqueued/{where}")
        self._stats.inc_value("scheduler/enqueued")
        return payload is not None

    def _dump(self, request: Request) -> bytes | None:
        try:
            return self._serializer.dump(request)
        except UnserializableError as error:
            if self._log_unserializable:
                logger.warning(
                    "Unable to serialize request: %(request)s - reason: %(reason)s - no"
                    " more unserializable requests will be logged (stats being"
                    " collected)",
                    {"request": request, "reason": error},
                    exc_info=True,
                    extra={"spider": self._spider},
                )
                self._log_unserializable = False
            self._stats.inc_value("scheduler/unserializable")
            return None

    def next_request(self) -> Request | None:
        """Return the next request, or None if no slot is ready for one."""
        frontier = self._opened
        if self._failure is not None:
            return None
        while True:
            try:
                entry = self._lease(frontier)
                if entry is None:
                    return None
                request = self._restore(entry)
            except (StoreError, MemoryError) as error:
                self._fail(error)
                return None
            if request is not None:
                break
        self._leases.add(request, entry)
        where = "disk" if self._durable and entry.payload is not None else "memory"
        self._stats.inc_value(f"scheduler/dequeued/{where}")
        self._stats.inc_value("scheduler/dequeued")
        return request

    def _lease(self, frontier: Frontier) -> Entry | None:
        entry = frontier.lease()
        if entry is None and frontier.pending:
            self._leases.look_at_downloader()
            entry = frontier.lease()
            if entry is None:
                seconds = frontier.seconds_until_ready()
                if seconds is not None:
                    self._alarm.set(max(seconds, SHORTEST_ALARM))
        return entry

    def _restore(self, entry: Entry) -> Request | None:
        """Return the request of an entry; one that cannot be restored is kept."""
        request: Any = entry.attachment
        if request is not None:
            return request  # type: ignore[no-any-return]
        payload = entry.payload or b""
        try:
            return self._serializer.load(payload)
        except UnserializableError as error:
            self._leases.set_aside(entry)
            self._unrestorable += 1
            logger.error(  # noqa: TRY400 - the reason says it all
                "A stored request cannot be restored and stays in the store:"
                " %(request)s - reason: %(reason)s",
                {"request": url_of(payload), "reason": error},
                extra={"spider": self._spider},
            )
            return None

    @property
    def _opened(self) -> Frontier:
        if self._frontier is None:
            raise RuntimeError("the scheduler is not open")
        return self._frontier

    # Checkpoints

    def _on_tick(self) -> None:
        self._checkpoint()
        interval = self._job.settings.checkpoint_interval
        self._tick.set(REST if self._cut.unfinished else interval)

    def _on_alarm(self) -> None:
        self._engine.wake()

    def _checkpoint(self) -> None:
        """Settle what is done and make everything durable."""
        frontier = self._opened
        try:
            self._settle(frontier)
            if self._failure is None and self._cut.changed:
                self._write(self._cut.commit)
        except MemoryError as error:
            self._fail(error)

    def _settle(self, frontier: Frontier) -> None:
        for key, exact in self._leases.settle():
            self._unmarked.discard(key)
            try:
                frontier.seen.add(key, exact=exact)
            except FilterFullError as error:
                self._stop_full(error)
            except StoreError as error:
                self._fail(error)

    def _write(self, commit: Callable[[], None]) -> None:
        try:
            self._timed(commit)
        except (BloomDupeError, MemoryError) as error:
            self._fail(error)

    def _timed(self, commit: Callable[[], None]) -> None:
        begun = perf_counter()
        commit()
        self._longest = max(self._longest, perf_counter() - begun)
        if self._durable:
            self._stats.inc_value("bloomdupe/checkpoints")

    def _stop_full(self, error: FilterFullError) -> None:
        """Stop the crawl; what was not marked may come once more, but is not lost."""
        if self._ours is not None:
            self._ours.stop_full(error)

    def _fail(self, error: Exception) -> None:
        """Stop the crawl; the last checkpoint stands."""
        if self._failure is not None:
            return
        self._failure = error
        what, reason = "A checkpoint failed", str(error)
        if isinstance(error, StoreError):
            what = "The store of the crawl failed"
        if isinstance(error, MemoryError):
            what, reason = "Memory has run out", limit_of_memory()
        logger.critical(
            "%(what)s, so the crawl stops: %(reason)s. Once the cause is gone, run the"
            " same command again: it goes on from the last checkpoint.",
            {"what": what, "reason": reason},
            extra={"spider": self._spider},
        )
        self._engine.fail(reason_of(error))

    def _on_failed_download(self, error: BaseException) -> None:
        if isinstance(error, MemoryError):  # an errback would take care of it
            self._fail(error)

    def _out_of_memory(self) -> None:
        self._fail(MemoryError())


def _is_fifo(name: str) -> bool:
    """Whether one of Scrapy's queue classes takes the oldest request first."""
    return "fifo" in load_object(name).__name__.lower() or "fifo" in str(name).lower()
