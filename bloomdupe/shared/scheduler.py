"""SharedScheduler: Scrapy's SCHEDULER slot, for a crawl that several workers share."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.exceptions import CloseSpider
from scrapy.utils.misc import build_from_crawler, load_object

from bloomdupe.crawl.acceptance import ASKING
from bloomdupe.crawl.dupefilter import BloomDupeFilter
from bloomdupe.crawl.ending import INCOMPLETE
from bloomdupe.crawl.engines.crawl_job import CrawlJob
from bloomdupe.crawl.engines.queue_order import QueueOrder
from bloomdupe.crawl.later.backoff import Backoff
from bloomdupe.crawl.later.circuits import tries_of
from bloomdupe.crawl.requests.identity import identity_of, is_once_more
from bloomdupe.crawl.requests.names import START, OutputNames, name_of
from bloomdupe.crawl.requests.serializer import Serializer
from bloomdupe.crawl.start_outputs import (
    StartItem,
    StartOutputs,
    is_fresh_start,
    second_name,
)
from bloomdupe.crawl.state.cookies_packed import PackedCookies, without_cookie_header
from bloomdupe.crawl.stopping import Stopping
from bloomdupe.errors import SettingError, UnserializableError
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.frontier.payload import url_of
from bloomdupe.inside_scrapy.cookie_jars import CookieJars
from bloomdupe.inside_scrapy.engine import EngineAccess, mark_failed
from bloomdupe.inside_scrapy.processing import Processing, current_work
from bloomdupe.inside_scrapy.timer import Timer
from bloomdupe.links.link_filter import Duplicate, attach_link_filter
from bloomdupe.printable import logger_of, printable
from bloomdupe.redis.partition import LeftRequest, Offer, SeenMark
from bloomdupe.redis.shared_frontier import SharedFrontier
from bloomdupe.shared.cookies import SharedCookies
from bloomdupe.shared.feeds import SharedFeeds
from bloomdupe.shared.joining import by_settings, check_settings
from bloomdupe.shared.leases import LocalRequest, SharedLease, SharedLeases
from bloomdupe.shared.messages import (
    ITEM,
    REQUEST,
    joined,
    message_of,
    payload_of,
)
from bloomdupe.shared.progress import Progress
from bloomdupe.shared.slots import forget_inherited_slot
from bloomdupe.shared.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from typing_extensions import Self

    from bloomdupe.frontier.slot_queue import Entry
    from bloomdupe.redis.partition import RedisLease

__all__ = ["SharedScheduler"]

logger = logger_of(__name__)

SHORTEST_ALARM, LONGEST_ALARM = 0.001, 60.0
"""Seconds."""
AT_HAND = 4
"""Requests on a worker, for each request that it may have in progress at once."""
HUNGRY = 64
"""Further requests to fetch, when none of those at hand may go yet."""
MOST_AT_HAND = 10_000
FEW = 4
"""Number of requests at hand from Redis at which their slot has its next turn."""


class SharedScheduler(BaseScheduler):
    """Keeps the pending requests of a crawl on Redis, for all workers with its URL.

    Each worker is a process that runs ``scrapy crawl`` with the same settings. The
    workers share the hosts; if a worker dies, other workers do its requests in progress
    again. See :class:`bloomdupe.redis.shared_frontier.SharedFrontier`.

    ``spider.state`` is a dictionary. Each worker has its own, and it ends with the
    worker.
    """

    def __init__(
        self, crawler: Crawler, dupefilter: BloomDupeFilter, job: CrawlJob
    ) -> None:
        if crawler.stats is None:
            raise RuntimeError("the crawler has no stats yet")
        self._crawler = crawler
        self._stats = crawler.stats
        self._job = job
        self.df = dupefilter
        self._worker: Worker | None = None
        self._finished = False
        # Number of pages that workers have left, when no other request is pending.
        self._left = self._aside = 0
        self._warned = False
        # Requests that cannot be stored, by fingerprint: the page that is not done
        # before them, or None; and the number of requests that Redis is asked about.
        self._carriers: dict[bytes, SharedLease | None] = {}
        self._asked = 0
        # Pages with such requests, until Redis has answered their settlement.
        self._settling: dict[tuple[int, str, bytes], SharedLease] = {}
        # Number of requests at hand from Redis, by slot.
        self._from_redis = Counter[str]()
        self._alarm = Timer(self._wake)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the scheduler of a crawl; raises :class:`SettingError`."""
        if crawler.spider is None:
            raise RuntimeError("the crawler has no spider yet")
        job = CrawlJob.of(crawler.spider, crawler.settings)
        check_settings(job, crawler)
        dupefilter = load_object(crawler.settings["DUPEFILTER_CLASS"])
        return cls(crawler, build_from_crawler(dupefilter, crawler), job)

    # Opening and closing

    def open(self, spider: Spider) -> None:
        """Open or create the crawl on Redis, and begin to work on it.

        Raises the errors of :meth:`SharedFrontier.open`,
        :class:`~bloomdupe.errors.EngineError` and :class:`~bloomdupe.errors.FeedError`.
        """
        crawler, settings = self._crawler, self._job.settings
        self._spider = spider
        if getattr(spider, "state", None) is None:
            spider.state = {}  # type: ignore[attr-defined]
        self._engine = EngineAccess(crawler)
        self._stopping = Stopping(crawler)
        self._serializer = Serializer(spider, pickles=settings.serializer == "pickle")
        self._feeds = SharedFeeds(crawler, self._put, self._stopping.fail)
        order = QueueOrder.of(crawler.settings, durable=True)
        self._starts_apart = order.starts_apart
        self._backoff = Backoff(
            self._engine.slot_of, self._engine.wait, settings.max_retry_after
        )
        # Requests that this worker has offered, and that Redis has handed out to it.
        self._seen = self.df.open_shared(self._job.recent())
        self._at_hand = Frontier(
            self._seen,
            fifo=order.fifo,
            start_fifo=order.start_fifo,
            wait=self._backoff.wait,
        )
        self._frontier = self._open_frontier(self._feeds.names, fifo=order.fifo)
        self._leases = SharedLeases(
            self._at_hand, self._settle, self._give_up, self._offer
        )
        self._processing = Processing(
            crawler, self._leases.of, self._raised, direct=settings.direct_output
        )
        self._processing.attach()
        self._starting = StartOutputs(self._processing, START, self._key_of)
        self._start_requests = OutputNames(START)
        self._engine.watch_start(self._starting.watch)
        connect = crawler.signals.connect
        connect(self._idle, signals.spider_idle)
        connect(self._left_downloader, signals.request_left_downloader)
        connect(self._reached_downloader, signals.request_reached_downloader)
        if settings.max_retry_after:
            connect(self._backoff.response_downloaded, signals.response_downloaded)
        self._link_filter = None
        if type(self.df) is BloomDupeFilter:
            self._link_filter = attach_link_filter(crawler, self._would_drop, self.df)
        concurrent = crawler.settings.getint("CONCURRENT_REQUESTS")
        self._enough = AT_HAND * max(1, concurrent)
        self._cookies = self._shared_cookies() if settings.cookies else None
        worker = self._worker = Worker(
            self._frontier,
            settings.redis_lease,
            self,
            cookies=self._cookies is not None,
        )
        worker.start()
        worker.want(self._enough)
        interval = settings.progress_interval
        self._progress = Progress(crawler, self._at_hand, self._frontier, interval)
        self._progress.begin()
        logger.info(
            "This is worker %(worker)s on %(shown)s",
            {"worker": self._frontier.worker, "shown": self._frontier.shown},
            extra={"spider": spider},
        )
        if settings.redis_partition_by == "url":
            logger.info(
                "BLOOMDUPE_REDIS_PARTITION_BY is url: delays and concurrency of a host"
                " hold for each worker by itself",
                extra={"spider": spider},
            )

    def _shared_cookies(self) -> SharedCookies | None:
        jars = CookieJars.of(self._crawler)
        if jars is None:
            return None
        return SharedCookies(jars, PackedCookies(self._serializer, self._spider))

    def _open_frontier(self, feeds: list[str], *, fifo: bool) -> SharedFrontier:
        settings = self._job.settings
        assert settings.redis_url is not None  # noqa: S101 - it was checked
        with by_settings():
            return SharedFrontier.open(
                settings.redis_url,
                settings.capacity,
                settings.fpp,
                partitions=settings.redis_partitions,
                partition_by=settings.redis_partition_by,
                lease_seconds=settings.redis_lease,
                fifo=fifo,
                replicas=settings.redis_replicas,
                identity={
                    "spider": self._job.spider,
                    "fingerprinter": self._job.fingerprinter,
                    "feeds": feeds,
                },
            )

    def close(self, reason: str) -> None:
        """Settle the finished requests in Redis, and give back the rest."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        self._alarm.cancel()
        self._progress.end()
        self._stopping.end()
        if reason == INCOMPLETE:
            self._say_incomplete()
        if self._aside:
            self._say_aside()
        error = worker.close()
        if error is not None:
            self._stopping.fail(error)
        self.df.close(reason)

    # The life of a request

    def has_pending_requests(self) -> bool:
        """Whether any worker may have pending requests; if so, the crawl stays open."""
        # Redis does not know the requests here that cannot be stored.
        return self._worker is not None and (
            not self._finished or self._at_hand.pending > 0 or self._asked > 0
        )

    def _idle(self) -> None:
        """Let the engine close the crawl with its reason (signal ``spider_idle``)."""
        if self._finished and self._left:  # unless there is work: the engine looks
            raise CloseSpider(INCOMPLETE)

    def _say_incomplete(self) -> None:
        """Log the number of pages that are left; the process ends with status 1."""
        mark_failed(self._crawler)
        logger.error(
            "The crawl is incomplete: %(left)d pages were left, for something other"
            " than their callbacks broke off: see the errors above, or in the logs of"
            " other workers. They are pending. Mend the cause, and start a worker"
            " again",
            {"left": self._left},
            extra={"spider": self._spider},
        )

    def _say_aside(self) -> None:
        """Log how many requests cannot be restored; the process ends with status 1."""
        mark_failed(self._crawler)
        logger.error(
            "Requests that cannot be restored: %(aside)d. They stay in Redis, and"
            " `bloomdupe info URL` says why. Mend the cause, such as a callback that"
            " was renamed, and start a worker again",
            {"aside": self._aside},
            extra={"spider": self._spider},
        )

    def __len__(self) -> int:
        """Count the requests on this worker that are not in progress yet."""
        return 0 if self._worker is None else self._at_hand.pending

    def enqueue_request(self, request: Request) -> bool:
        """Offer a request; False if it is known to be a duplicate.

        Only Redis knows the offers of other workers: a duplicate of these is skipped,
        too, and counted when Redis has answered. A request of ``start()`` may come when
        the scheduler has closed: another worker has it, or yields it.
        """
        if self._worker is None or not self._is_for_now(request):
            return False
        worker = self._worker
        parent = self._parent()
        if parent is not None:
            forget_inherited_slot(request, parent.request)
        start = self._starting.takes(request)
        key, page = self._known_by(request, parent), None
        filtered = not request.dont_filter
        if filtered and self._seen.contains(key):
            self.df.log(request, self._spider)
            return False
        stored = request
        if self._cookies is not None:
            self._keep_cookies(worker)
            stored = without_cookie_header(request)
        body = self._serializer.dump_or_none(stored)
        if body is None and filtered and self._is_carried(key, parent):
            self.df.log(request, self._spider)
            return False
        self._finished = False
        slot = self._engine.slot_of(request)
        held = body is not None and self._is_held(request, parent, key, slot)
        repeats = self._repeats(request, parent)
        name = self._name_of(
            request, parent, key, start=start, repeats=held and repeats
        )
        self._stats.inc_value("scheduler/enqueued")
        if body is None:
            known_by = key if filtered else name if start else None
            self._keep(request, parent, name, known_by)
            return True
        if start and not filtered:
            self._starting.add_page(key)
            page = SeenMark(slot, key)
        if filtered or start:
            self._seen.add(key)
        self._stats.inc_value("scheduler/enqueued/redis")
        offer = Offer(
            slot,
            name,
            payload_of(REQUEST, name, body),
            request.priority,
            self._starts_apart and bool(request.meta.get("is_start_request")),
            None if parent is None else parent.root.local.lease,
            page,
            key if filtered or start else None,
        )
        if parent is not None and held:
            parent.instead, parent.may_hold = offer, False
            parent.is_child = not repeats
        else:
            worker.offer(offer)
        return True

    def _is_for_now(self, request: Request) -> bool:
        if ASKING.isdisjoint(request.meta):
            return True
        self._stopping.fail(
            SettingError(
                f"{request} is scheduled for later, or comes again: that does"
                " not work with BLOOMDUPE_REDIS_URL yet"
            )
        )
        return False

    def _offer(self, offer: Offer) -> None:
        """Offer a request that was held back, unless the crawl has ended."""
        if self._worker is not None:
            self._finished = False
            self._worker.offer(offer)

    def _key_of(self, request: Request) -> bytes:
        key, _ = self.df.key_of(request)
        return key

    def _known_by(self, request: Request, parent: SharedLease | None) -> bytes:
        """Return the name of a request without ``dont_filter``: its fingerprint.

        The second use of a start page has a name of its own.
        """
        key = self._key_of(request)
        if request.dont_filter or parent is None:
            return key
        second = self._starting.is_second_use(request, key, parent.request)
        return second_name(key) if second else key

    def _repeats(self, request: Request, parent: SharedLease | None) -> bool:
        """Whether a request is a redirect or a retry of its parent."""
        if parent is None:
            return False
        answers = self._processing.answering is not None
        return answers or tries_of(request) > tries_of(parent.request)

    def _is_held(
        self, request: Request, parent: SharedLease | None, key: bytes, slot: str
    ) -> bool:
        """Whether a request is held back to take the place of its parent.

        Otherwise both would be pending for a moment, and the failed parent might
        succeed when another worker does it again.
        """
        if parent is None or parent.local.lease is None or not parent.may_hold:
            return False
        return (
            request.dont_filter
            and not parent.waiting
            and parent.root is parent
            and (
                self._repeats(request, parent)
                or is_once_more(request, key, parent.request, self._key_of)
            )
            and self._frontier.may_stand_in(SeenMark(slot, b""), parent.local.lease)
        )

    def _keep_cookies(self, worker: Worker) -> None:
        """Send the cookies that this worker has changed to Redis."""
        if self._cookies is not None:
            changes = self._cookies.changes()
            if changes:
                worker.keep_cookies(changes)

    def _name_of(
        self,
        request: Request,
        parent: SharedLease | None,
        key: bytes,
        *,
        start: bool,
        repeats: bool,
    ) -> bytes:
        """Return the name of a request, unique in the crawl."""
        if not request.dont_filter:
            return key
        origin = None if parent is None else parent.request
        identity = identity_of(request, key, origin)
        if start:
            return self._start_requests.name_of(identity)
        if parent is None:  # of a timer, or spider_idle: each is new
            return name_of(b"nobody", os.urandom(16))
        if repeats or self._processing.answering is not None:
            return name_of(b"answer", parent.local.name, identity)
        return parent.children.name_of(identity)

    def _is_carried(self, key: bytes, parent: SharedLease | None) -> bool:
        """Whether another page carries a request that cannot be stored.

        That page yields the request again if it is done again, on any worker. So this
        page may go without the request as long as this worker has the other page: it
        relies on it.
        """
        if key not in self._carriers:
            return False
        carrier = self._carriers[key]
        root = None if parent is None else parent.root
        if carrier is root or root is None or root.local.lease is None:
            return True  # the same page, or it is never done again
        lease = None if carrier is None else carrier.local.lease
        if key in root.carries:
            return True
        if lease is None or not self._frontier.holds(lease):
            return False
        root.relies[lease.token] = lease
        return True

    def _keep(
        self,
        request: Request,
        parent: SharedLease | None,
        name: bytes,
        key: bytes | None,
    ) -> None:
        """Keep a request in memory; its parent is not done before it is."""
        if not self._warned:
            self._warned = True
            logger.warning(
                "%(request)s cannot be stored: %(reason)s. Such requests live in the"
                " memory of one worker only, and the request that yielded one is not"
                " done before it is. No more of them will be logged (see the stat"
                " scheduler/unserializable)",
                {"request": request, "reason": self._serializer.explain(request)},
                extra={"spider": self._spider},
            )
        self._stats.inc_value("scheduler/unserializable")
        root = None
        if parent is not None:
            root = parent.root
            root.open_parts += 1
        local = LocalRequest(name, request, None, root, key)
        if key is None:
            self._push(local)
            return
        mark = SeenMark(self._engine.slot_of(request), key)
        if root is not None:
            root.carries[key] = mark
        self._carriers[key] = root
        self._asked += 1
        self._opened.ask(mark, local)

    def _let_go(self, key: bytes, root: SharedLease | None) -> None:
        """Forget that a page carries a request."""
        if key in self._carriers and self._carriers[key] is root:
            del self._carriers[key]

    def _give_back(self, root: SharedLease) -> None:
        """Let other pages do the requests that this page carries."""
        for key in root.carries:
            self._let_go(key, root)

    def _push(self, local: LocalRequest) -> None:
        request = local.request
        slot = self._engine.slot_of(request)
        self._at_hand.push(
            slot,
            request.priority,
            b"",
            start=self._starts_apart and bool(request.meta.get("is_start_request")),
            attachment=local,
        )
        if local.lease is not None:
            self._keep_delay(slot, local.lease)
        self._wake()

    def _keep_delay(self, slot: str, lease: RedisLease) -> None:
        """Let the delay of a slot pass after the last request of its last owner."""
        last = self._frontier.last_owner_until(lease)
        if last is not None:
            self._backoff.hold(slot, last + self._engine.delay_of(slot))

    def next_request(self) -> Request | None:
        """Return the next request, or None if no request may go now."""
        worker = self._opened
        request = None
        if self._stopping.failure is None:
            request = self._next(worker)
        self._processing.works_on(self._leases.of(request))
        return request

    def _next(self, worker: Worker) -> Request | None:
        while True:
            entry = self._at_hand.lease()
            pending = self._at_hand.pending
            if entry is None:
                # All hosts at hand are busy, and further hosts may be free.
                more = HUNGRY if pending < MOST_AT_HAND else 0
                worker.want(max(self._enough - pending, more))
                seconds = self._at_hand.seconds_until_ready()
                if seconds is not None:
                    self._alarm.set(min(max(seconds, SHORTEST_ALARM), LONGEST_ALARM))
                return None
            worker.want(max(0, self._enough - pending))
            request = self._taken(entry, worker)
            if request is not None:
                self._stats.inc_value("scheduler/dequeued")
                return request

    def _taken(self, entry: Entry, worker: Worker) -> Request | None:
        """Return the request of an entry; None if this worker must not work on it."""
        local: Any = entry.attachment
        request: Request = local.request
        if local.lease is not None:
            self._count_taken(local.lease.slot, worker)
            if not self._frontier.holds(local.lease):
                # The lease has run out, and another worker has it.
                self._at_hand.settle(entry)
                self._stats.inc_value("bloomdupe/leases_lost")
                return None
            self._stats.inc_value("scheduler/dequeued/redis")
        if request in self._leases:
            request = request.copy()
        self._leases.add(request, entry, local)
        return request

    def _count_taken(self, slot: str, worker: Worker) -> None:
        """Let a slot take its next turn in Redis when few of it are at hand."""
        at_hand = self._from_redis[slot] - 1
        if at_hand <= FEW:
            worker.ask_again(slot)
        if at_hand:
            self._from_redis[slot] = at_hand
        else:
            del self._from_redis[slot]

    def _settle(self, lease: SharedLease) -> None:
        if self._stopping.failure is not None:
            # This very page may have caused the failure.
            self._give_up(lease)
        elif lease.local.lease is not None:
            self._keep_cookies(self._opened)
            if lease.carries:
                self._settling[lease.local.lease.token] = lease
            self._opened.settle(lease.done(lease.local.lease))
        else:
            self._settle_in_memory(lease)

    def _settle_in_memory(self, lease: SharedLease) -> None:
        """Put out the items of a request that no page of Redis has yielded.

        They have the name of the request, so they come once, though another worker may
        do the same start request.
        """
        local = lease.local
        if lease.lines:
            self._offer_lines(local.name, lease.lines)
        if local.key is not None:
            slot = self._engine.slot_of(local.request)
            lease.carries[local.key] = SeenMark(slot, local.key)
            self._let_go(local.key, None)
        self._opened.mark(lease.carries.values())
        self._mark(lease)

    def _mark(self, root: SharedLease) -> None:
        """Drop requests that a page has carried, for they are done."""
        for key in root.carries:
            self._let_go(key, root)
            self._seen.add(key)

    def _give_up(self, lease: SharedLease) -> None:
        """Leave a request to another worker, when this worker ends."""
        self._give_back(lease)
        if self._worker is None:
            return
        if lease.local.lease is None:
            if lease.lines:
                self._offer_lines(os.urandom(16), lease.lines)
            return
        self._stats.inc_value("bloomdupe/unfinished")
        self._worker.leave(lease.leave(lease.local.lease, lease.lines))

    def _put(self, response: Any, lines: list[bytes]) -> None:  # noqa: ANN401
        """Store the lines of an item, with the request that they belong to."""
        parent = self._parent() or self._leases.of(getattr(response, "request", None))
        work = current_work()
        if parent is not None:
            parent.root.lines += lines
        elif type(work) is SharedLease and work.root.left:
            self._put_late(work.root, lines)
        elif type(work) is StartItem:
            named = self._frontier.names_start_items
            self._offer_lines(work.name if named else b"%d" % work.number, lines)
        elif lines:
            self._offer_lines(os.urandom(16), lines)

    def _put_late(self, root: SharedLease, lines: list[bytes]) -> None:
        """Store the lines of an item that comes after its page was left."""
        if lines and self._worker is not None and root.local.lease is not None:
            self._worker.leave(root.leave(root.local.lease, lines))

    def _offer_lines(self, name: bytes, lines: list[bytes]) -> None:
        """Offer lines that belong to no request: once for each name."""
        name = name_of(b"item", name)
        self._finished = False
        self._opened.offer(Offer("", name, payload_of(ITEM, name, joined(lines))))

    def _parent(self) -> SharedLease | None:
        """Return the request on which the running code works, if it is not settled."""
        work = current_work()
        if type(work) is SharedLease and work.root.open_parts:
            return work
        return None

    def _would_drop(self, request: Request) -> Duplicate:
        if self._worker is None:
            return Duplicate.NO
        key = self._key_of(request)
        if not self._seen.contains(key):
            return Duplicate.NO
        if not self._starting.may_be_page(key):
            return Duplicate.ALL
        known_by = self._known_by(request, self._parent())
        return Duplicate.THIS if self._seen.contains(known_by) else Duplicate.NO

    # Reports of the thread (see bloomdupe.shared.worker.WorkerReports)

    def handed_out(self, leases: Sequence[RedisLease]) -> None:
        """Take requests to work on."""
        if self._worker is None:
            return
        for lease in leases:
            message = message_of(lease.payload)
            try:
                request = self._serializer.load(message.body)
            except UnserializableError as error:
                self._set_aside(lease, url_of(message.body), error)
                continue
            if request.dont_filter and is_fresh_start(request):
                self._starting.add_page(self._key_of(request))
            self._from_redis[lease.slot] += 1
            local = LocalRequest(message.name, request, lease, put_out=message.put_out)
            self._push(local)

    def _set_aside(
        self, lease: RedisLease, url: str, error: UnserializableError
    ) -> None:
        """Leave a request that cannot be restored, as after a callback was renamed."""
        logger.error(
            "A request cannot be restored and stays in Redis: %(request)s - reason:"
            " %(reason)s",
            {"request": url, "reason": error},
            extra={"spider": self._spider},
        )
        self._stats.inc_value("bloomdupe/unrestorable")
        reason = printable(f"{url}: {error}")
        self._opened.leave(LeftRequest(lease, lease.payload, reason=reason))
        self._opened.ask_again(lease.slot)
        self._wake()  # for more requests are wanted now

    def cookies(self, news: Sequence[bytes]) -> None:
        """Apply the cookies that other workers have changed."""
        if self._worker is not None and self._cookies is not None:
            self._cookies.take(news)

    def give_back(self, partitions: frozenset[int]) -> None:
        """Begin no more requests of partitions that other workers will get."""
        if self._worker is None:
            return

        def is_theirs(entry: Entry) -> bool:
            local: Any = entry.attachment
            return local.lease is not None and local.lease.partition in partitions

        entries: list[Any] = self._at_hand.withdraw(is_theirs)
        leases = [entry.attachment.lease for entry in entries]
        self._from_redis.subtract(lease.slot for lease in leases)
        self._worker.not_begin(leases)

    def known(self, count: int) -> None:
        """Count duplicates of offers by this or another worker."""
        if self._worker is not None:
            self._stats.inc_value("dupefilter/filtered", count)

    def answered(self, answers: Sequence[tuple[LocalRequest, bool]]) -> None:
        """Begin with requests that cannot be stored, unless they were done before."""
        if self._worker is None:
            return
        for local, known in answers:
            self._asked -= 1
            if known:
                self._drop(local)
            else:
                self._push(local)
        self._wake()

    def _drop(self, local: LocalRequest) -> None:
        """Drop a request that cannot be stored, because it was done before."""
        root, key = local.root, local.key
        assert key is not None  # noqa: S101 - Redis was asked about it
        self._stats.inc_value("dupefilter/filtered")
        self._seen.add(key)
        self._let_go(key, root)
        if root is not None:
            del root.carries[key]
            self._leases.end_part(root)

    def accepted(self, leases: Sequence[RedisLease], sure: bool) -> None:
        """Treat requests that these pages have carried as duplicates, if ``sure``.

        Redis may have lost the settlement otherwise, and then other pages may do them.
        """
        if self._worker is not None:
            end = self._mark if sure else self._give_back
            for lease in leases:
                end(self._settling.pop(lease.token))

    def refused(self, leases: Sequence[RedisLease]) -> None:
        """Count and log pages that were settled too late, and are done again."""
        for lease in leases:
            if root := self._settling.pop(lease.token, None):
                self._give_back(root)
        if self._worker is None:
            return
        self._stats.inc_value("bloomdupe/refused_settlements", len(leases))
        logger.warning(
            "%(count)d pages were settled after their lease had run out: they are"
            " fetched again, and their items of this time do not count. Was the process"
            " stopped, or Redis away, for longer than BLOOMDUPE_REDIS_LEASE?",
            {"count": len(leases)},
            extra={"spider": self._spider},
        )

    def finished(self, offered: int, left: int, aside: int) -> None:
        """Let the crawl end, because only ``left`` pages are pending.

        Besides these, ``aside`` requests cannot be restored.
        Does nothing if this worker has offered requests since the look.
        """
        worker = self._worker
        if worker is None or worker.offered != offered:
            return
        self._finished = True
        self._left, self._aside = left, aside
        self._engine.wake()

    def interrupted(self) -> None:
        """Forget the seen requests, because Redis may have lost its last writes.

        The frontier repeats the offers of pages that this worker has not settled yet.
        But a page that was settled in the lost moment is done again, and its links must
        not be skipped then.
        """
        if self._worker is None:
            return
        self._seen.clear()
        if self._link_filter is not None:
            self._link_filter.forget()

    def failed(self, error: BaseException) -> None:
        """Stop the crawl, because no request reaches Redis any more."""
        if self._worker is not None:
            self._stopping.fail(error)

    # Slots

    def _left_downloader(self, request: Request) -> None:
        lease = self._leases.of(request)
        if lease is not None:
            self._leases.release(lease)

    def _reached_downloader(self, request: Request) -> None:
        """Release the old slot if a middleware has put a request into another slot."""
        lease = self._leases.of(request)
        if lease is None or not lease.entry.active:
            return
        if self._engine.slot_of(request) != lease.entry.queue.name:
            self._leases.release(lease)
            self._engine.wake()

    def _raised(self, error: BaseException) -> None:
        if isinstance(error, MemoryError):
            self._stopping.fail(error)

    def _wake(self) -> None:
        self._engine.wake()

    @property
    def _opened(self) -> Worker:
        if self._worker is None:
            raise RuntimeError("the scheduler is not open")
        return self._worker
