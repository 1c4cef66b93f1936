"""FrontierScheduler: the frontier in Scrapy's SCHEDULER slot."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from scrapy.core.scheduler import BaseScheduler
from scrapy.dupefilters import BaseDupeFilter
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.python import global_object_name

from bloomdupe.crawl.acceptance import Acceptance
from bloomdupe.crawl.dupefilter import BloomDupeFilter
from bloomdupe.crawl.engines.crawl_engine import CrawlEngine
from bloomdupe.crawl.engines.crawl_job import CrawlJob, refuse_queue_of_scrapy
from bloomdupe.crawl.engines.session import Session
from bloomdupe.crawl.state.memory import leave_scrapys_file
from bloomdupe.errors import SettingError, StoreError, UnserializableError
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.inside_scrapy.engine import Timer, opening
from bloomdupe.inside_scrapy.private_names import check_names
from bloomdupe.inside_scrapy.processing import CURRENT
from bloomdupe.links.link_filter import attach_link_filter
from bloomdupe.printable import logger_of
from bloomdupe.requests.layout import url_of

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred
    from typing_extensions import Self

    from bloomdupe.crawl.in_flight.request import InFlightRequest
    from bloomdupe.frontier.slot_queue import Entry

logger = logger_of(__name__)

SHORTEST_ALARM = 0.001
"""Seconds; a slot that is ready sooner can wait that long."""
MOST_KEPT_OUT = 500
"""Requests that rules keep out at once; then the crawl does something else."""
LONGEST_ALARM = 3_600.0
"""Greatest number of seconds until the next check: the clock may be set."""


class FrontierScheduler(BaseScheduler):
    """Keeps the pending requests of a crawl, so that no crash loses any.

    With ``JOBDIR``, pending requests, requests in flight and the seen URLs are kept
    in a store, ``JOBDIR/bloomdupe``, and written together every
    ``BLOOMDUPE_CHECKPOINT_INTERVAL`` seconds and at the end. With
    ``BLOOMDUPE_REDIS_URL`` they are kept on Redis, for all workers with this URL.
    Without both they are kept in memory.

    Within a slot (host) the order is Scrapy's: priority, then newest first, start
    requests last. It is oldest first if the class named by ``SCHEDULER_DISK_QUEUE``
    (without JOBDIR, ``SCHEDULER_MEMORY_QUEUE``) is a Fifo queue of Scrapy. Among slots,
    the slot with the fewest requests in flight is next.
    """

    def __init__(
        self, crawler: Crawler, dupefilter: BaseDupeFilter, job: CrawlJob
    ) -> None:
        self._crawler = crawler
        self._job = job
        self.df = dupefilter
        self._session: Session | None = None
        self._alarm = Timer(self._on_alarm)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the scheduler of a crawl from its settings."""
        if crawler.spider is None:
            raise RuntimeError("the crawler has no spider yet")
        with opening(crawler):
            check_names(pipelines=bool(crawler.settings["ITEM_PIPELINES"]))
            job = CrawlJob.of(crawler.spider, crawler.settings)
            dupefilter = load_object(crawler.settings["DUPEFILTER_CLASS"])
            if job.settings.is_shared and not issubclass(dupefilter, BloomDupeFilter):
                raise SettingError(
                    "DUPEFILTER_CLASS: a crawl with BLOOMDUPE_REDIS_URL needs"
                    " bloomdupe.BloomDupeFilter, because its workers decide together"
                    " which requests are duplicates; leave DUPEFILTER_CLASS out"
                )
            return cls(crawler, build_from_crawler(dupefilter, crawler), job)

    # Opening and closing

    def open(self, spider: Spider) -> Deferred[None] | None:
        """Open or create the crawl, and continue from the last run.

        Raises the errors of :meth:`bloomdupe.BloomFilter.open` or
        of Redis, and :class:`~bloomdupe.errors.FeedError`.
        """
        with opening(self._crawler):
            session = Session(self._crawler, self._job)
            leave_scrapys_file(self._crawler, session.stopping)
            if self._job.settings.is_shared:
                return deferred_from_coro(self._open_as_worker(session))
            return self._open_here(session)

    async def _open_as_worker(self, session: Session) -> None:
        assert isinstance(self.df, BloomDupeFilter)  # noqa: S101 - it was checked
        with opening(self._crawler), ExitStack() as undo:
            # Imported here, because a crawl without Redis needs no redis-py.
            from bloomdupe.crawl.engines.handshake import join
            from bloomdupe.crawl.engines.worker_engine import WorkerEngine

            held = await join(session, self._job)
            undo.callback(held.close, failed=True)
            self.df.share(held.seen)
            session.open(WorkerEngine(session, held))
            undo.pop_all()
        self._begin(session, marks=True)

    def _begin(self, session: Session, *, marks: bool) -> None:
        session.stats.set_value("bloomdupe/unrestorable", 0)
        self._acceptance = Acceptance(session, self.df, marks=marks)
        self._session = session
        if type(self.df) is BloomDupeFilter:
            session.link_filter = attach_link_filter(
                self._crawler, self._acceptance.would_drop, self.df.report
            )

    def _open_here(self, session: Session) -> Deferred[None] | None:
        """Open a crawl of one process; another filter may take its time to open."""
        opening, marks = None, False
        self._job.check_new(self._crawler)
        seen = self._job.open_filter()
        with ExitStack() as undo:
            undo.callback(seen.close)
            if isinstance(self.df, BloomDupeFilter):
                self.df.share(seen)
                marks = type(self.df).request_seen is BloomDupeFilter.request_seen
            else:
                opening = self.df.open()
            if seen.store is not None and not marks:
                logger.warning(
                    "DUPEFILTER_CLASS is %(filter)s, which keeps its fingerprints apart"
                    " from the pending requests: after a crash, pages found shortly"
                    " before it may count as seen without being fetched, or be fetched"
                    " twice if it has forgotten them. Only DUPEFILTER_CLASS ="
                    ' "bloomdupe.BloomDupeFilter" is safe against that.',
                    {"filter": global_object_name(type(self.df))},
                )
            filtered = type(self.df) is not BaseDupeFilter
            if seen.store is not None and seen.store.now.record("frontier") is None:
                refuse_queue_of_scrapy(seen.store.path.parent, self._job.spider)
            frontier = Frontier(seen, **session.frontier_options)
            session.open(CrawlEngine(session, frontier, filtered=filtered))
            undo.pop_all()
        self._begin(session, marks=marks)
        return opening

    def close(self, reason: str) -> Deferred[None] | None:
        """Write the last checkpoint and release the store."""
        session, self._session = self._session, None
        if session is None:
            return None
        self._alarm.cancel()
        session.close(reason)
        try:
            if isinstance(self.df, BloomDupeFilter) and session.stopping.failure:
                return None  # it would read the store, which may have failed
            return self.df.close(reason)
        finally:
            session.engine.frontier.seen.close()

    # The life of a request

    def has_pending_requests(self) -> bool:
        """Whether the crawl goes on because of requests that are left.

        It does not if all of them are scheduled for a time that is too far away.
        """
        return self._session is not None and self._session.ending.goes_on

    def __len__(self) -> int:
        """Return the number of requests that are pending or delayed."""
        return 0 if self._session is None else len(self._session.engine)

    def enqueue_request(self, request: Request) -> bool:
        """Accept a request; False if it was dropped as a duplicate.

        A request of ``start()`` may come when the scheduler has closed: the next run,
        or another worker, yields it again.
        """
        session = self._session
        if session is None:
            return False
        rules = session.engine.rules
        if rules.now.blocked and rules.drop(
            session.access.slot_of(request), request.url
        ):
            return False
        try:
            return self._acceptance.takes(request)
        except UnserializableError as error:
            self._refuse(session, request, error)
            return False
        except (StoreError, MemoryError) as error:
            # It could not be looked up, so its parent must never count as done: from
            # now on nothing is committed.
            session.stopping.fail(error)
            return False

    def _refuse(self, session: Session, request: Request, error: ValueError) -> None:
        """Drop an invalid request, and let its parent run again in the next run."""
        parent = session.parent()
        if parent is not None:
            parent.root.broken = True
        session.ending.leaves(
            request.url, f"it is refused: {error}", unstored=parent is None
        )
        session.stats.inc_value("bloomdupe/refused")
        logger.error(
            "%(request)s is refused: %(reason)s. It is not marked as seen. Correct the"
            " spider: the next run repeats %(parent)s, which has yielded it",
            {
                "request": request,
                "reason": error,
                "parent": "start()" if parent is None else parent.shown,
            },
        )

    def next_request(self) -> Request | None:
        """Return the next request, or None if no slot is ready for one."""
        session, in_flight = self._session, None
        if session is not None and session.stopping.failure is None:
            try:
                in_flight = self._next(session)
            except Exception as error:  # noqa: BLE001 - the engine would ask for ever
                session.stopping.fail(error, "Choosing the next request")
        # From here on the engine works for this request.
        CURRENT.set(in_flight)
        return None if in_flight is None else in_flight.request

    def _next(self, session: Session) -> InFlightRequest | None:
        for _ in range(MOST_KEPT_OUT):
            entry = session.engine.next()
            if entry is None:
                seconds = session.engine.frontier.seconds_until_ready()
                if seconds is not None:
                    self._alarm.set(min(max(seconds, SHORTEST_ALARM), LONGEST_ALARM))
                return None
            request = self._restore(session, entry)
            if request is not None and not session.engine.keeps_out(entry, request):
                break
        else:
            self._alarm.set(SHORTEST_ALARM)
            return None
        in_flight = session.registry.add(request, entry)
        stored = session.engine.durable and entry.payload is not None
        where = "disk" if stored else "memory"
        session.stats.inc_value(f"scheduler/dequeued/{where}")
        session.stats.inc_value("scheduler/dequeued")
        return in_flight

    def _restore(self, session: Session, entry: Entry) -> Request | None:
        """Return the request of an entry, or None if it cannot be restored."""
        request = session.registry.in_memory(entry)
        if request is not None:
            return request
        payload = entry.payload or b""
        try:
            return session.serializer.load(payload)
        except UnserializableError as error:
            session.engine.frontier.leave(entry)
            session.stats.inc_value("bloomdupe/unrestorable")
            session.ending.leaves(url_of(payload), f"it cannot be restored: {error}")
            logger.error(  # noqa: TRY400 - the reason says it all
                "A stored request cannot be restored and stays in the job:"
                " %(request)s - reason: %(reason)s",
                {"request": url_of(payload), "reason": error},
            )
            return None

    def _on_alarm(self) -> None:
        if self._session is not None:
            self._session.access.wake()
