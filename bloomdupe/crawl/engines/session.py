"""Session: the parts of an open crawl, between its opening and its closing."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from scrapy import signals

from bloomdupe.crawl.ending import INCOMPLETE, Ending
from bloomdupe.crawl.engines.checkpoint import FEED, Checkpoint, CrawlRecord
from bloomdupe.crawl.engines.queue_order import QueueOrder
from bloomdupe.crawl.later.backoff import Backoff
from bloomdupe.crawl.later.clock import Clock
from bloomdupe.crawl.later.growing_wait import GrowingWait
from bloomdupe.crawl.later.retries import Retries
from bloomdupe.crawl.later.revisits import Revisits
from bloomdupe.crawl.later.sleeping import Sleeping
from bloomdupe.crawl.leases.carried import CarriedValues
from bloomdupe.crawl.leases.children import PREFIX as CHILDREN
from bloomdupe.crawl.leases.children import Children
from bloomdupe.crawl.leases.cut_short import CutShort
from bloomdupe.crawl.leases.lease import Lease
from bloomdupe.crawl.leases.leases import Leases
from bloomdupe.crawl.leases.outcomes import Outcome, Outcomes
from bloomdupe.crawl.memory import MemoryWatch
from bloomdupe.crawl.progress.rounds import FINISHED, OPEN, Run
from bloomdupe.crawl.progress.slot_times import SlotTimes
from bloomdupe.crawl.progress.watch import Watch
from bloomdupe.crawl.requests.serializer import Serializer
from bloomdupe.crawl.start_outputs import StartItem
from bloomdupe.crawl.starting import Starting
from bloomdupe.crawl.state.cookies import Cookies, forget_cookies
from bloomdupe.crawl.state.delays import Delays
from bloomdupe.crawl.state.failures import Failures
from bloomdupe.crawl.state.limits import SlotLimits
from bloomdupe.crawl.state.spider_state import STATE, SpiderState
from bloomdupe.crawl.stopping import Stopping
from bloomdupe.errors import FeedError, FilterFullError
from bloomdupe.feeds.exporter import FeedExporter
from bloomdupe.feeds.feed_job import FeedJob
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.inside_scrapy.cookie_jars import CookieJars
from bloomdupe.inside_scrapy.engine import EngineAccess
from bloomdupe.inside_scrapy.processing import Processing, current_work
from bloomdupe.inside_scrapy.timer import Timer
from bloomdupe.links.fingerprint import fingerprint_function

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from twisted.python.failure import Failure

    from bloomdupe.crawl.engines.crawl_job import CrawlJob
    from bloomdupe.crawl.state.blocked import Blocked
    from bloomdupe.filter.bloom import BloomFilter

__all__ = ["Session"]

REST = 0.01
"""Seconds for the crawl between the parts of a checkpoint that is too much at once."""


class Session:
    """Frontier, leases and checkpoint of an open crawl, and when they are written.

    The frontier owns ``seen`` from now on. Raises
    :class:`~bloomdupe.errors.EngineError` if this version of Scrapy is not supported,
    and the errors of opening the store, the frontier or a feed.
    """

    def __init__(
        self,
        crawler: Crawler,
        job: CrawlJob,
        seen: BloomFilter,
        filter_full: Callable[[FilterFullError], None],
    ) -> None:
        if crawler.stats is None or crawler.spider is None:
            raise RuntimeError("the crawler has no stats or no spider yet")
        settings = self.settings = job.settings
        self._crawler = crawler
        self._stats = crawler.stats
        self._filter_full = filter_full
        self.durable = settings.directory is not None
        self.engine = EngineAccess(crawler)
        self.stopping = Stopping(crawler)
        self.serializer = Serializer(
            crawler.spider, pickles=settings.serializer == "pickle"
        )
        self._open_frontier(seen)
        self.run = Run(
            seen.notes,
            pending=self.pending,
            again=settings.start_requests == "again",
        )
        self.outcomes = Outcomes(settings.directory)
        self.children = Children()
        self.cut_short = CutShort()
        self.failures = self._open_failures()
        self.carried_values = CarriedValues(self.serializer.callbacks)
        self.leases = Leases(
            self.frontier,
            self.outcomes,
            self.children,
            self.cut_short,
            self.failures,
            self._mark,
            self.carried_values,
        )
        self.processing = Processing(
            crawler,
            self.leases.of,
            self._raised,
            direct=settings.direct_output,
            crowded=lambda: self.hurries,
        )
        fingerprinter = crawler.request_fingerprinter
        assert fingerprinter is not None  # noqa: S101 - the crawl is open
        self._fingerprint = fingerprint_function(fingerprinter)
        self.starting = Starting(
            self.run,
            settings.start_requests,
            self.processing,
            self.frontier.seen,
            self._fingerprint,
        )
        self.limits = SlotLimits(settings, self.frontier, self._stats)
        self.unmarked: set[bytes] = set()
        """Fingerprints of requests in memory only: a request that a crash loses must
        not have been marked.
        """
        self._restore()
        self._closed = self.hurries = False
        self._tick = Timer(self._on_tick)
        self._memory_watch = MemoryWatch(lambda: self.stopping.fail(MemoryError()))

    # Opening

    def _open_frontier(self, seen: BloomFilter) -> None:
        order = QueueOrder.of(self._crawler.settings, durable=self.durable)
        self.starts_apart = order.starts_apart
        self.retries: Retries | None = None
        wait = self.engine.wait
        if self.settings.retry_backoff is not None:
            growing = GrowingWait(*self.settings.retry_backoff)
            self.retries = Retries(self._crawler, self.engine, growing)
            wait = self.retries.circuits.wait
        limit = self.settings.max_retry_after
        self._backoff = Backoff(self.engine.slot_of, wait, limit)
        self.frontier = Frontier(
            seen,
            fifo=order.fifo,
            start_fifo=order.start_fifo,
            wait=self._backoff.wait,
        )

    def _open_failures(self) -> Failures | None:
        store = self.frontier.store
        limit = self.settings.max_failures
        fingerprinter = self._crawler.request_fingerprinter
        if store is None or not limit or fingerprinter is None:
            return None
        return Failures(store, self.serializer, fingerprinter.fingerprint, limit)

    def _restore(self) -> None:
        """Restore the state of the last checkpoint."""
        crawler, settings, run = self._crawler, self.settings, self.run
        crawl = CrawlRecord(self.frontier)
        feeds = self._restore_feeds(crawl)
        self.state = SpiderState(crawler, self.serializer)
        self.state.restore(crawl.blobs.get(STATE))
        self.children.restore(crawl.blobs_of(CHILDREN))
        self.cut_short.restore(crawl.record.get("cut_short", {}))
        self.leases.after_a_kill = run.last == OPEN
        if run.resumed:
            before = crawl.record.get("totals", {}).get("start_items", 0)
            self.starting.counted.restore(crawl.record.get("start_items", [before]))
        self.waiting = Sleeping(crawler, self.frontier, settings.wait)
        clock = Clock(crawl.record.get("clock"))
        self.waiting.restore(clock.stored)
        self.ending = Ending(crawler, self.frontier, self.waiting)
        self.leases.leaves = self.ending.leaves
        self._backoff.restore(crawl.record.get("holds", {}), clock)
        self.checkpoint = Checkpoint(
            crawler, self.frontier, self.outcomes, crawl, feeds
        )
        self.checkpoint.participants += [
            self.starting.counted,
            self.children,
            self.cut_short,
            self.state,
            self._backoff,
            clock,
        ]
        if self.retries is not None:
            self.retries.circuits.restore(crawl.record.get("circuits", {}), clock)
            self.retries.attach(self.frontier, self.leases)
            self.checkpoint.participants.append(self.retries.circuits)
        self.revisits = self._begin_revisits()
        self.checkpoint.participants.append(self.limits)
        store = self.frontier.store
        if store is not None:
            delays = Delays(self.engine, store)
            if run.resumed and self.engine.throttled:
                self.engine.restore_delays(delays.of)
            self.checkpoint.participants.append(delays)
        self.cookies = self._restore_cookies()
        if self.cookies is not None:
            self.checkpoint.participants.append(self.cookies)
        if self.failures is not None:
            self.failures.restore(crawl.record.get("failures_left", 0))
            self.checkpoint.participants.append(self.failures)
        crawl.blobs.clear()
        self.watch = Watch(
            crawler,
            settings,
            self.frontier,
            self.checkpoint,
            self.failures,
            SlotTimes(self.frontier, self.engine, self._rests()),
            self.stopping.fail,
        )
        if self.watch.history is not None:
            self.checkpoint.participants.append(self.watch.history)
        if not run.idle:
            self.checkpoint.begin_run()

    def _rests(self) -> Iterator[Callable[[], dict[str, float]]]:
        yield self._backoff.resting
        if self.retries is not None:
            yield self.retries.circuits.resting

    def _begin_revisits(self) -> Revisits:
        revisits = Revisits(
            self._crawler,
            self.settings,
            self.frontier,
            self.engine,
            self.serializer,
            self._fingerprint,
            self._mark_visited,
            self.stopping.fail,
            starts_apart=self.starts_apart,
        )
        self.leases.watchers.append(revisits)
        self.leases.leaves_out = revisits.leaves_out
        return revisits

    def _restore_feeds(self, crawl: CrawlRecord) -> FeedExporter | None:
        if self.frontier.store is None:
            return None
        feeds = FeedExporter.of(self._crawler)
        assert self.settings.directory is not None  # noqa: S101 - there is a store
        job = FeedJob(
            self._take_item,
            self.stopping.fail,
            self.serializer.dump_item,
            self.serializer.load_value,
            self.settings.directory,
        )
        feeds.restore(
            job,
            crawl.record,
            crawl.blobs_of(FEED),
            resumed=self.run.resumed,
            accept=self.settings.feed_changed == "accept",
        )
        return feeds

    def _restore_cookies(self) -> Cookies | None:
        """Go on with the cookies of this round, if cookies are kept."""
        store, crawler = self.frontier.store, self._crawler
        if store is None:
            return None
        kept = self.settings.cookies
        if not (kept and self.run.resumed):
            forget_cookies(store)
        jars = CookieJars.of(crawler) if kept else None
        if jars is None:
            return None
        assert crawler.spider is not None  # noqa: S101 - the crawl is open
        cookies = Cookies(jars, store, self.serializer, crawler.spider)
        cookies.restore()
        return cookies

    def begin(self, blocked: Blocked) -> None:
        """Begin to work: watch the engine, and write checkpoints from now on."""
        if self.failures is not None:
            retried = self.failures.begin(
                self.frontier, self.settings.retry_failed, blocked
            )
            self._stats.set_value("bloomdupe/retried_failures", retried)
            if retried:
                self.has_work()
        if self.run.idle:
            self.checkpoint.totals.show(self._stats)
        else:
            self._write(partial(self.checkpoint.commit, first=True))
            self.watch.begin_run()
        self.processing.attach()
        self.engine.watch_start(self.starting.watch)
        connect = self._crawler.signals.connect
        connect(self._left_downloader, signals.request_left_downloader)
        connect(self._reached_downloader, signals.request_reached_downloader)
        if self.settings.max_retry_after:
            connect(self._backoff.response_downloaded, signals.response_downloaded)
        if not self.durable:  # or the feeds hand over each item
            connect(self._scraped, signals.item_scraped)
        connect(self._dropped, signals.item_dropped)
        connect(self._item_failed, signals.item_error)
        connect(self.ending.idle, signals.spider_idle)
        self._memory_watch.begin()
        self.watch.begin()
        self._tick.set(self.settings.checkpoint_interval)

    # Work and the requests it belongs to

    @property
    def pending(self) -> int:
        """Requests that are pending or scheduled for later."""
        return self.frontier.pending + self.frontier.waiting

    def parent(self) -> Lease | None:
        """Return the request on which the running code works, if it is not settled."""
        work = current_work()
        if type(work) is Lease and work.leases is self.leases and work.root.open_parts:
            return work
        return None

    def has_work(self) -> None:
        """Begin the run, if the job was finished and there is new work."""
        if self.run.idle:
            self.run.begin()
            self.checkpoint.begin_run()
            self.watch.begin_run()

    def _take_item(self, response: Any, lines: list[tuple[int, bytes]]) -> None:  # noqa: ANN401
        """Take an item that is through its pipelines, as lines for the feeds."""
        self.has_work()
        parent = self.parent()
        if parent is None:  # a pipeline may have lost track, the response has not
            parent = self.leases.of(getattr(response, "request", None))
        work = current_work()
        item = work if parent is None and type(work) is StartItem else None
        outcome = Outcome()
        if parent is not None:
            outcome = parent.outcome
        elif item is not None:
            outcome = item.outcome
        outcome.items += 1
        try:
            for line in lines:
                self.outcomes.add_line(outcome, line)
        except OSError as error:
            what = f"cannot put items aside in {self.settings.directory}: {error}"
            self.stopping.fail(_caused(FeedError(what), error))
            return
        if item is not None:
            self._through(item)
        elif parent is None:  # it belongs to no request: settle it now
            self.outcomes.settle(outcome)

    def _scraped(self, response: Any) -> None:  # noqa: ANN401 - a response, a failure
        self._take_item(response, [])

    def _dropped(self) -> None:
        work = current_work()
        if type(work) is StartItem:
            self.has_work()
            self._through(work)

    def _item_failed(self, failure: Failure, response: object) -> None:
        lease = self.parent()
        if lease is not None and failure.value is not None:
            current_work().item_failed(failure.value, response)
        self._dropped()

    def _through(self, item: StartItem) -> None:
        if self.durable:
            self._mark([(item.name, True)])
        self.outcomes.settle(item.outcome)

    def _mark(self, keys: list[tuple[bytes, bool]]) -> None:
        """Mark requests that lived in memory, and are settled now, as seen."""
        for key, exact in keys:
            self.unmarked.discard(key)
            try:
                self.frontier.seen.add(key, exact=exact)
            except FilterFullError as error:
                self._filter_full(error)
            except OSError as error:
                self.stopping.fail(error)

    def _mark_visited(self, key: bytes) -> bool:
        try:
            return self.frontier.seen.add(key)
        except FilterFullError as error:
            self._filter_full(error)
            return True

    # Signals

    def _left_downloader(self, request: Request) -> None:
        lease = self.leases.of(request)
        if lease is not None:
            self.leases.release(lease)

    def _reached_downloader(self, request: Request) -> None:
        """Check whether a middleware has put a request into another slot."""
        lease = self.leases.of(request)
        if lease is None or not lease.entry.active:
            return
        if self.engine.slot_of(request) != lease.entry.queue.name:
            # The downloader paces it there; its own slot is as free as before.
            self.leases.release(lease)
            self.engine.wake()

    def _raised(self, error: BaseException) -> None:
        if isinstance(error, MemoryError):  # an errback would take care of it
            self.stopping.fail(error)

    # Checkpoints

    def hurry(self) -> None:
        """Write a checkpoint as soon as the running code returns control.

        Until then callbacks pause, because their further output is kept in memory.
        """
        if self._tick.due is not None:
            self._tick.set(0)
            self.hurries = self.durable

    def _on_tick(self) -> None:
        self.commit()
        stopped = self._closed or self.stopping.failure is not None
        self.hurries = self.hurries and self.frontier.due and not stopped
        if not self._closed:
            soon = self.checkpoint.unfinished or self.frontier.due
            self._tick.set(REST if soon else self.settings.checkpoint_interval)

    def commit(self, *, last: bool = False, finished: bool = False) -> None:
        """Make all changes durable.

        The ``last`` checkpoint of a run writes everything that is left; ``finished``
        says that no request is pending. If it fails, the crawl stops, and the previous
        checkpoint is still valid.
        """
        if self.stopping.failure is not None or self.run.idle:
            return
        commit: Callable[[], None] = self.checkpoint.commit
        if last:
            commit = partial(self.checkpoint.commit_everything, finished=finished)
        elif not self.checkpoint.changed:
            return
        try:
            self._write(commit)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - of any listener
            self.stopping.fail(error)

    def _write(self, commit: Callable[[], None]) -> None:
        begun = perf_counter()
        commit()
        self.watch.wrote(perf_counter() - begun)
        if self.durable:
            self._stats.inc_value("bloomdupe/checkpoints")

    def close(self, reason: str) -> None:
        """Write the last checkpoint and the reason of the run's end; stop watching."""
        self._closed, self.hurries = True, False
        self._memory_watch.end()
        self._tick.cancel()
        self.stopping.end()
        self.watch.end()
        reason = self.ending.reason_of(reason)
        finished = reason == FINISHED
        if finished:
            self.children.end()
        self.commit(last=True, finished=finished)
        if not self.run.idle and self.stopping.failure is None:
            # When the last items are in their files: until then, nothing has ended.
            self.run.end(reason)
            self.watch.end_run(reason)
            self.commit(last=True, finished=finished)
        if reason == INCOMPLETE and self.stopping.failure is None:
            self.ending.say()
        self.outcomes.close()
        if self.failures is not None:
            self._stats.set_value("bloomdupe/failed", len(self.failures))
            self.failures.end()
        for name, value in (
            ("pending", self.pending),
            ("later", self.frontier.waiting),
            ("unfinished", self.frontier.leased),
            ("checkpoint_seconds_max", round(self.watch.longest, 4)),
        ):
            self._stats.set_value(f"bloomdupe/{name}", value)


def _caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error
