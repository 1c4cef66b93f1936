"""EngineOnRedis: the engine of a crawl that several workers share."""

from __future__ import annotations

import os
from collections import Counter
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from scrapy import signals

from bloomdupe.crawl.engines.crawl_job import QueueOrder
from bloomdupe.crawl.engines.on_redis.joining import FEATURES, open_frontier
from bloomdupe.crawl.engines.on_redis.later_on_redis import LaterOnRedis
from bloomdupe.crawl.engines.on_redis.messages import (
    FAILED,
    ITEM,
    REQUEST,
    START_PAGE,
    counted,
    joined,
    message_of,
    packed_failed,
    payload_of,
)
from bloomdupe.crawl.engines.on_redis.page_on_redis import PageOnRedis
from bloomdupe.crawl.engines.on_redis.requests_in_memory import RequestsInMemory
from bloomdupe.crawl.engines.on_redis.shared_cookies import SharedCookies
from bloomdupe.crawl.engines.on_redis.shared_failures import SharedFailures
from bloomdupe.crawl.engines.on_redis.shared_feeds import SharedFeeds
from bloomdupe.crawl.engines.on_redis.shared_look import SharedLook
from bloomdupe.crawl.engines.on_redis.slots.inherited_slot import forget_inherited_slot
from bloomdupe.crawl.engines.on_redis.slots.shared_rests import SharedRests
from bloomdupe.crawl.engines.on_redis.slots.slot_states import SlotStates
from bloomdupe.crawl.engines.on_redis.worker import Worker
from bloomdupe.crawl.engines.on_redis.worker_counts import WorkerCounts
from bloomdupe.crawl.engines.on_redis.worker_state import WorkerState
from bloomdupe.crawl.later.backoff import Backoff
from bloomdupe.crawl.later.circuits import GrowingWait, Retries
from bloomdupe.crawl.leases.in_memory import Position
from bloomdupe.crawl.leases.lease import Lease
from bloomdupe.crawl.progress.pace import plural
from bloomdupe.crawl.progress.rounds import FINISHED
from bloomdupe.crawl.progress.slot_times import SlotTimes
from bloomdupe.crawl.progress.watch import Watch, glance_of
from bloomdupe.crawl.requests.names import START, name_of
from bloomdupe.crawl.start_outputs import StartItem, StartOutputs, is_fresh_start
from bloomdupe.crawl.state.blocked import Blocked
from bloomdupe.crawl.state.cookies import PackedCookies
from bloomdupe.crawl.state.delays import Delays, LastRequests
from bloomdupe.crawl.state.failure_records import (
    FailureRecords,
    log_failures,
    log_retried,
)
from bloomdupe.crawl.state.limits import PAGE, PENDING, SlotLimits
from bloomdupe.crawl.state.slot_state import CIRCUIT, DELAY, HOLD, LAST_REQUEST
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.inside_scrapy.cookie_jars import CookieJars
from bloomdupe.printable import logger_of, printable
from bloomdupe.redis.frontier_reader import LeftOver
from bloomdupe.redis.partition import (
    NO_BOUND,
    LeftRequest,
    Offer,
    SeenMark,
    Settled,
    SlotBounds,
    Taken,
)
from bloomdupe.redis.shared_frontier import SharedFrontier

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from scrapy import Request

    from bloomdupe.crawl.dupefilter import BloomDupeFilter
    from bloomdupe.crawl.engines.crawl_job import CrawlJob
    from bloomdupe.crawl.engines.engine_contract import Accepted, Feature
    from bloomdupe.crawl.engines.on_redis.shared_failures import Retried
    from bloomdupe.crawl.engines.session import Session
    from bloomdupe.crawl.leases.outcomes import Line, Outcome
    from bloomdupe.crawl.progress.history import Point
    from bloomdupe.crawl.state.slot_state import SlotState
    from bloomdupe.frontier.slot_queue import Entry
    from bloomdupe.redis.partition import AboutSlot, RedisLease
    from bloomdupe.redis.settled.tally import Numbers

__all__ = ["EngineOnRedis"]

logger = logger_of(__name__)

AT_HAND = 4
"""Requests on a worker, for each request that it may have in progress at once."""
HUNGRY = 64
"""Further requests to fetch, when none of those at hand may go yet."""
MOST_AT_HAND = 10_000
REFUSALS: dict[int, str] = {Taken.PAGE_LIMIT: PAGE, Taken.PENDING_LIMIT: PENDING}
OF_ALL = (
    "pages", "bytes", "items", "duplicates", "statuses", "seen", "pending", "leased",
    "slots", "failed", "later",
)  # fmt: skip
"""Figures of a point that are about all workers; the rest are those of a process."""
FEW = 4
"""Number of requests at hand from Redis at which their slot has its next turn."""


class EngineOnRedis:
    """Keeps requests on Redis, for all workers with its URL: an :class:`Engine`.

    Each worker is a process that runs ``scrapy crawl`` with the same settings. The
    workers share the hosts; if a worker dies, other workers do its requests in progress
    again. See :class:`bloomdupe.redis.shared_frontier.SharedFrontier`.

    Redis answers later, on another thread, which reports the answers (see
    :class:`bloomdupe.crawl.engines.on_redis.worker.WorkerReports`).

    ``spider.state`` is a dictionary. Each worker has its own. It ends with the worker,
    unless the user has given the worker a name.
    """

    durable = has_feeds = True
    features: Collection[Feature] = FEATURES
    hurries = False
    held_back = ()

    def __init__(
        self, session: Session, job: CrawlJob, dupefilter: BloomDupeFilter
    ) -> None:
        crawler, settings = session.crawler, session.settings
        self._session = session
        self._stats = session.stats
        self._access = session.access
        self._spider = spider = session.spider
        if getattr(spider, "state", None) is None:
            spider.state = {}  # type: ignore[attr-defined]
        self._closed = False
        # Whether Redis has nothing to do, as the thread has said. It looks again only
        # after an offer. Requests in memory are counted here, and change nothing.
        self._finished = False
        # Number of pages that workers have left, when no other request is pending.
        self._left = self._aside = 0
        # Number of requests at hand from Redis, by slot.
        self._from_redis = Counter[str]()
        self._feeds = SharedFeeds(
            crawler, session.serializer, session.take_item, session.stopping.fail
        )
        order = QueueOrder.of(crawler.settings, durable=True)
        self._starts_apart = order.starts_apart
        self.retries = None
        wait = self._access.wait
        if settings.retry_backoff is not None:
            growing = GrowingWait(*settings.retry_backoff)
            self.retries = Retries(crawler, self._access, growing)
            wait = self.retries.circuits.wait
        self._last_requests = LastRequests(self._access, wait)
        self._backoff = Backoff(
            self._access.slot_of, self._last_requests.wait, settings.max_retry_after
        )
        # Requests that this worker has offered, and that Redis has handed out to it.
        self._seen = dupefilter.open_shared(job.recent())
        self._at_hand = Frontier(
            self._seen,
            fifo=order.fifo,
            start_fifo=order.start_fifo,
            wait=self._backoff.wait,
        )
        rests = [self._backoff.resting]
        if self.retries is not None:
            self.retries.attach(self._at_hand, session.leases)
            rests.append(self.retries.circuits.resting)
        self._parts = settings.redis_slot_parts
        self._states, self._rests = self._slot_states()
        self._limits = SlotLimits(settings, self._at_hand, session.stats)
        assert settings.redis_url is not None  # noqa: S101 - it was checked
        self._frontier = open_frontier(
            SharedFrontier,
            settings.redis_url,
            job,
            self._feeds.feeds,
            lease_seconds=settings.redis_lease,
            fifo=order.fifo,
            replicas=settings.redis_replicas,
            stays=settings.stay,
        )
        self.blocked = Blocked(
            self._frontier.rules,
            session.fingerprint,
            partial(session.stats.inc_value, "bloomdupe/dropped_blocked"),
        )
        self.starting = StartOutputs(session.processing, START, session.fingerprint)
        self._access.share_slots(self._parts, self._frontier.share_of)
        concurrent = crawler.settings.getint("CONCURRENT_REQUESTS")
        self._enough = AT_HAND * max(1, concurrent)
        self._cookies = self._shared_cookies() if settings.cookies else None
        named = settings.redis_worker and self._frontier.named(settings.redis_worker)
        self._look = SharedLook(
            self._frontier, glance_of(settings), settings.max_failures
        )
        self._whole: Point | None = None
        """The whole crawl, as it was looked at last."""
        self._worker = Worker(
            self._frontier,
            settings.redis_lease,
            self,
            cookies=self._cookies is not None,
            named=named or None,
            first=self._retry_failed,
            last=self._count_all,
            look=self._look.look,
            look_every=glance_of(settings),
        )
        self._state = (
            WorkerState(session, named, self._worker.keep_state) if named else None
        )
        self._in_memory = RequestsInMemory(
            session,
            self._worker,
            self._frontier,
            self._at_hand,
            self._seen,
            starts_apart=self._starts_apart,
        )
        self._later = LaterOnRedis(
            session, self._worker, self._frontier, starts_apart=self._starts_apart
        )
        self._failures = self._open_failures()
        self._failed: dict[str, int] = {}
        """Failed requests of all workers by reason, when this worker ends."""
        self._worker_counts = WorkerCounts(session.stats)
        self._watch = Watch(
            session,
            self._at_hand,
            self._worker_counts,
            self._failures,
            SlotTimes(
                self._at_hand,
                self._access,
                rests,
                lambda: self._worker_counts.totals.by_slot,
            ),
            self._frontier.shown,
            line=self._line_of_worker,
            whole=self._of_all,
            schedule=self._later,
        )

    def _line_of_worker(self, line: str) -> str:
        """Return the line on this worker for the log; Redis is not asked for it."""
        owned, all_of_them = len(self._frontier.owned), self._frontier.partitions
        line = f"This worker: {line}; {owned} of {plural(all_of_them, 'partition')}"
        if self._whole is not None:
            line += f"; {plural(self._whole.pages, 'page')} by all workers"
        return line

    def _of_all(self, point: Point) -> Point:
        """Return a point with the figures of all workers, as far as they are known."""
        whole = self._whole
        if whole is None:
            return point
        return point._replace(**{name: getattr(whole, name) for name in OF_ALL})

    def _slot_states(self) -> tuple[SlotStates, SharedRests]:
        """Return the state of slots, in the order in which it is restored."""
        delays = Delays(self._access, None)
        if self._access.throttled:
            self._access.restore_delays(delays.of)
        rests: dict[str, SlotState] = {HOLD: self._backoff}
        if self.retries is not None:
            rests[CIRCUIT] = self.retries.circuits
        states = {DELAY: delays, **rests, LAST_REQUEST: self._last_requests}
        return (
            SlotStates(states, self._at_hand.pending_in),
            SharedRests(rests, self._parts),
        )

    def _open_failures(self) -> SharedFailures | None:
        session, limit = self._session, self._session.settings.max_failures
        if not limit:
            return None
        records = FailureRecords(session.serializer, session.fingerprint)
        return SharedFailures(records, self._frontier, limit)

    def _shared_cookies(self) -> SharedCookies | None:
        jars = CookieJars.of(self._session.crawler)
        if jars is None:
            return None
        packed = PackedCookies(self._session.serializer, self._spider)
        return SharedCookies(jars, packed)

    def open(self) -> None:
        """Begin to talk to Redis."""
        settings = self._session.settings
        if settings.max_retry_after:
            self._session.crawler.signals.connect(
                self._backoff.response_downloaded, signals.response_downloaded
            )
        self._worker.start()
        if self._state is not None:
            self._state.begin()
        self._worker.want(self._enough)
        self._watch.begin_run()
        self._watch.begin()
        extra = {"spider": self._spider}
        logger.info(
            "This is worker %(worker)s on %(shown)s",
            {"worker": self._frontier.worker, "shown": self._frontier.shown},
            extra=extra,
        )
        if self.blocked.rules:
            self.blocked.say(self._spider)
        for slot, parts in self._parts.items():
            logger.info(
                "Slot %(slot)r has %(parts)d parts: several workers crawl it, each at a"
                " share of its pace",
                {"slot": slot, "parts": parts},
                extra=extra,
            )

    @property
    def keeps_cookies(self) -> bool:
        """See :attr:`Engine.keeps_cookies`."""
        return self._cookies is not None

    # Acceptance

    def slot_of(self, request: Request, parent: Lease | None) -> str:
        """See :meth:`Engine.slot_of`."""
        if parent is not None:
            forget_inherited_slot(request, parent.request)
        return self._access.slot_of(request)

    def knows(self, key: bytes, *, exact: bool) -> bool:
        """See :meth:`Engine.knows`.

        Only Redis knows the offers of other workers: a duplicate of these is skipped,
        too, and counted when Redis has answered.
        """
        return self._seen.contains(key, exact=exact)

    def recognises(self, parent: Lease, identity: bytes) -> bool:  # noqa: ARG002
        """See :meth:`Engine.recognises`: Redis accepts no name twice."""
        return False

    def has_room(self, request: Request) -> bool:  # noqa: ARG002
        """See :meth:`Engine.has_room`: Redis knows it."""
        return True

    def concerns(self, request: Request, follows: Lease | None) -> bool:
        """See :meth:`Engine.concerns`."""
        return self._later.revisits.concerns(request, follows)

    def may_replace(self, lease: Lease, *, answers: bool) -> bool:  # noqa: ARG002
        """See :meth:`Engine.may_replace`.

        Otherwise both would be pending for a moment, and the failed parent might
        succeed when another worker does it again.
        """
        page: PageOnRedis = lease.own
        return (
            page.lease is not None
            and page.may_hold
            and lease.root is lease
            and not lease.left
        )

    def take(self, offer: Accepted) -> bool:
        """See :meth:`Engine.take`."""
        self._send_cookies()
        if offer.payload is None:
            taken = self._in_memory.take(offer)
        else:
            taken = not self._is_carried(offer)
            if taken:
                self._finished = False
                name = self._name_of(offer, held=False)
                self._worker.offer(self._offer_of(offer, name))
        if taken:
            self._stats.inc_value("scheduler/enqueued")
        return taken

    def _is_carried(self, offer: Accepted) -> bool:
        """Whether a link to the same page is a request in memory, and in progress."""
        return (
            not offer.request.dont_filter
            and offer.name is not None
            and self._in_memory.is_carried(offer.name, offer.parent)
        )

    def hold(self, offer: Accepted) -> None:
        """See :meth:`Engine.hold`."""
        assert offer.parent is not None  # noqa: S101 - it takes its place
        self._send_cookies()
        self._finished = False
        name = self._name_of(offer, held=True)
        self._stats.inc_value("scheduler/enqueued")
        page: PageOnRedis = offer.parent.own
        offer.parent.instead = self._offer_of(offer, name)
        page.may_hold, page.is_child = False, not offer.repeats

    def let_go(self, lease: Lease) -> None:
        """See :meth:`Engine.let_go`."""
        instead, lease.instead = lease.instead, None
        if not self._closed:
            self._finished = False
            self._worker.offer(instead)

    def _name_of(self, offer: Accepted, *, held: bool) -> bytes:
        """Return the name of a request, unique in the crawl."""
        if offer.name is not None:
            return offer.name
        parent = offer.parent
        if parent is None:  # of a timer, or spider_idle: each is new
            return name_of(b"nobody", os.urandom(16))
        if offer.answers or (held and offer.repeats):
            return name_of(b"answer", parent.name, offer.identity)
        named = parent.name_of(offer.identity)
        assert named is not None  # noqa: S101 - every request has a name here
        return named

    def _offer_of(self, offer: Accepted, name: bytes) -> Offer:
        """Return a request as Redis gets it, and remember it."""
        request, parent = offer.request, offer.parent
        also = known_as = None
        bounds = self._bounds_of(offer)
        if offer.keys:
            mark = offer.keys[-1][0]
            if bounds is None:  # else it may be offered again, if it is refused
                self._seen.add(mark)
            if offer.name is not None:  # else it passes though its page was seen
                known_as = mark
            if name != mark:
                also = SeenMark(offer.slot, mark)
        self._stats.inc_value("scheduler/enqueued/redis")
        payload = offer.payload
        assert payload is not None  # noqa: S101 - it is stored
        if offer.repeats and parent is not None:
            visit = self._later.revisits.follow(parent)
            if visit is not None:
                payload = self._session.serializer.with_visit(payload, visit.values)
        return Offer(
            offer.slot,
            name,
            payload_of(self._kind_of(offer), name, payload),
            request.priority,
            self._starts_apart and bool(request.meta.get("is_start_request")),
            None if parent is None else parent.top.own.lease,
            also,
            known_as,
            bounds,
            self._later.time_of(offer.not_before),
        )

    def _bounds_of(self, offer: Accepted) -> SlotBounds | None:
        """Return the limits of a request's slot; a redirect counts, and always passes.

        Redis judges, because it knows the requests of all workers.
        """
        if not self._limits.on or offer.request.dont_filter:
            return None
        if offer.answers:
            return SlotBounds()
        given = (self._limits.of[kind] for kind in (PAGE, PENDING))
        parts = self._parts.get(offer.slot, 1)
        return SlotBounds(*(NO_BOUND if one is None else one // parts for one in given))

    def _kind_of(self, offer: Accepted) -> bytes:
        """Return the kind of a request: the workers must know the start pages."""
        request, parent = offer.request, offer.parent
        is_start = offer.start and request.dont_filter
        if offer.repeats and parent is not None and parent.own.is_start:
            page = self._session.fingerprint(parent.request)
            is_start = self._session.fingerprint(request) == page
        return START_PAGE if is_start else REQUEST

    def _send_cookies(self) -> None:
        """Send the cookies that this worker has changed to Redis."""
        if self._cookies is not None:
            changes = self._cookies.changes()
            if changes:
                self._worker.keep_cookies(changes)

    # Handing out

    def next(self) -> Entry | None:
        """See :meth:`Engine.next`."""
        leases, worker = self._session.leases, self._worker
        while True:
            entry = self._at_hand.lease()
            pending = self._at_hand.pending
            # Half of them at once: many requests in each script are cheap.
            wanted = self._enough - pending if 2 * pending <= self._enough else 0
            if entry is None:
                # All hosts at hand are busy, and further hosts may be free.
                wanted = max(wanted, HUNGRY)
            full = pending + self._at_hand.waiting >= MOST_AT_HAND
            worker.want(0 if full else wanted)
            if entry is None:
                if self._sleeps:
                    self._later.sleeping.look()
                return None
            page: Any = leases.own_of(entry)
            if page.lease is None:
                return entry
            self._count_taken(page.lease.slot)
            if self._frontier.holds(page.lease):
                self._stats.inc_value("scheduler/dequeued/redis")
                return entry
            # The lease has run out, and another worker has it.
            leases.forget(entry)
            self._at_hand.settle(entry)
            self._stats.inc_value("bloomdupe/leases_lost")

    def _count_taken(self, slot: str) -> None:
        """Let a slot take its next turn in Redis when few of it are at hand."""
        at_hand = self._from_redis[slot] - 1
        if at_hand <= FEW:
            self._worker.ask_again(slot)
        if at_hand:
            self._from_redis[slot] = at_hand
        else:
            del self._from_redis[slot]

    def seconds_until_ready(self) -> float | None:
        """See :meth:`Engine.seconds_until_ready`."""
        return self._at_hand.seconds_until_ready()

    def begin(self, lease: Lease) -> None:
        """See :meth:`Engine.begin`."""
        request, page = lease.request, lease.own
        # An earlier version has not said so.
        page.is_start = page.is_start or (
            request.dont_filter and is_fresh_start(request)
        )
        if page.is_start:
            self.starting.add_page(self._session.fingerprint(request))
        if lease.visit is not None:
            self._later.revisits.begin_visit(lease, lease.visit)

    def owes(self, lease: Lease) -> bool:  # noqa: ARG002
        """See :meth:`Engine.owes`: names recognise the output."""
        return False

    def release(self, entry: Entry) -> None:
        """See :meth:`Engine.release`."""
        self._at_hand.release(entry)

    def set_aside(self, entry: Entry, why: str) -> None:
        """See :meth:`Engine.set_aside`."""
        page: Any = self._session.leases.forget(entry)
        self._at_hand.settle(entry)
        lease: RedisLease = page.lease
        self._worker.leave(LeftRequest(lease, lease.payload, reason=printable(why)))
        self._worker.ask_again(lease.slot)

    def keeps_out(self, entry: Entry, request: Request) -> bool:
        """See :meth:`Engine.keeps_out`.

        Any worker that did not know the rule yet may have offered the request.
        """
        if not self.blocked.rules:
            return False
        page: Any = self._session.leases.own_of(entry)
        lease: RedisLease | None = page.lease
        if lease is None or not self.blocked.drops(request, lease.slot):
            return False
        self._session.leases.forget(entry)
        self._at_hand.settle(entry)
        failed = None
        if self._failures is not None:
            failed = self._failures.kept_out(request, lease)
        self._worker.settle(Settled(lease, failed=failed))
        self._worker.ask_again(lease.slot)
        return True

    # The end of requests

    def ended(self, lease: Lease, *, whole: bool) -> None:
        """See :meth:`Engine.ended`."""
        self._at_hand.settle(lease.entry)
        failed = None
        if whole and self._failures is not None:
            failed = self._failures.ended(lease)
        if failed is None:
            return
        page: PageOnRedis = lease.own
        if page.lease is not None:
            page.failed = failed
            return
        # Redis does not know the request.
        kind = b"failed" if failed.record else b"succeeded"
        name = name_of(kind, page.name)
        payload = payload_of(FAILED, name, packed_failed(failed))
        of, slot = lease.top.own.lease, lease.entry.queue.name
        self._finished = False
        self._worker.offer(Offer(slot, name, payload, of=of))

    def settle(self, root: Lease) -> None:
        """See :meth:`Engine.settle`."""
        page: PageOnRedis = root.own
        if self._session.stopping.failure is not None:
            # This very page may have caused the failure.
            self.leave(root)
            return
        self._send_cookies()
        of = root.top.own.lease
        for part in root.held:
            self._offer_each(part.own, _lines_of(part.outcome), of)
        lines = _lines_of(root.outcome)
        counts = self._worker_counts.settle(
            root.outcome, *(part.outcome for part in root.held)
        )
        if page.lease is None:
            self._offer_each(page, lines, of)
            if counts:
                self._offer_lines(name_of(b"counts", page.name), [], of, counts)
            self._in_memory.settle(root)
            return
        marks = self._in_memory.settling(root)
        done, child = page.done(root, lines, marks, counts)
        if child is not None:
            self._finished = False
            self._worker.offer(child)
        about = self._state_of(page.lease, done.instead)
        self._worker.settle(done._replace(about=about))

    def leave(self, root: Lease) -> None:
        """See :meth:`Engine.leave`."""
        page: PageOnRedis = root.own
        root.left = True
        self._in_memory.leave(root)
        lines = _lines_of(root.outcome)
        if self._closed:
            return
        if page.lease is not None:
            self._stats.inc_value("bloomdupe/unfinished")
            about = self._state_of(page.lease)
            self._worker.leave(page.left(lines)._replace(about=about))
        elif root.of_page is None:
            self._offer_each(page, lines)

    def _state_of(
        self, lease: RedisLease, instead: Sequence[Offer] = ()
    ) -> AboutSlot | None:
        """Return the state of a request's slot, if it is not stored yet.

        The requests that take its place may be scheduled for later.
        """
        ahead = self._frontier.clock_ahead
        if changes := self._rests.changes(lease.slot, ahead):
            self._worker.keep_rests(changes)
        due = max((one.not_before or 0.0 for one in instead), default=0.0)
        return self._states.changed(lease, ahead, due)

    # Output

    def add_line(self, outcome: Outcome, line: Line) -> None:
        """See :meth:`Engine.add_line`."""
        outcome.lines.append(line)

    def put(self, outcome: Outcome, work: object) -> None:
        """See :meth:`Engine.put`."""
        lines = _lines_of(outcome)
        if self._closed:
            return
        if type(work) is Lease:  # its page was left, and counts when it is done
            page: PageOnRedis = work.root.own
            if page.lease is not None and lines:
                self._worker.leave(page.left(lines))
            return
        name = os.urandom(16)
        if type(work) is StartItem:
            named = self._frontier.names_start_items
            name = work.name if named else b"%d" % work.number
        counts = self._worker_counts.settle(outcome)
        if lines or counts:
            self._offer_lines(name, lines, counts=counts)

    def _offer_each(
        self, page: PageOnRedis, lines: list[bytes], of: RedisLease | None = None
    ) -> None:
        """Offer lines of a request in memory, each with its own name.

        The request may have been left before, with the first of these lines, and
        another worker may do it, too, or the page that has yielded it.
        """
        for name, line in page.named(lines):
            self._offer_lines(name, [line], of)

    def _offer_lines(
        self,
        name: bytes,
        lines: list[bytes],
        of: RedisLease | None = None,
        counts: Numbers = MappingProxyType({}),
    ) -> None:
        """Offer lines that belong to no request of Redis: once for each name.

        ``of`` is the page that yields them again, and the ``counts`` come with them.
        """
        name = name_of(b"item", name)
        self._finished = False
        payload = counted(payload_of(ITEM, name, joined(lines)), counts)
        self._worker.offer(Offer("", name, payload, of=of))

    # The end

    def __len__(self) -> int:
        """Count the requests on this worker that are not in progress yet."""
        return self._at_hand.pending

    @property
    def goes_on(self) -> bool:
        """See :meth:`Engine.goes_on`: any worker may have pending requests."""
        # Redis does not know the requests here that cannot be stored.
        here = self._at_hand.pending + self._at_hand.waiting + self._in_memory.asked
        return here > 0 or not self._finished or self._later.sleeping.is_worth_it

    @property
    def _sleeps(self) -> bool:
        """Whether all workers sleep until a request is due."""
        return self._finished and not (self._at_hand.pending or self._session.leases)

    @property
    def finished_everywhere(self) -> bool:
        """See :meth:`Engine.finished_everywhere`."""
        return self._finished

    @property
    def left(self) -> int:
        """See :meth:`Engine.left`."""
        return self._left + self._aside + self.later

    @property
    def later(self) -> int:
        """See :meth:`Engine.later`."""
        return self._later.waiting if self._finished else 0

    def say_later(self) -> None:
        """See :meth:`Engine.say_later`."""
        self._later.sleeping.say_end()

    @property
    def remedy(self) -> str:
        """See :attr:`Engine.remedy`."""
        said = []
        if self._left:
            said.append(
                f"{self._left} pages were left, for something other than their"
                " callbacks broke off: see the errors above, or in the logs of other"
                " workers."
            )
        if self._aside:
            said.append(
                f"Requests that cannot be restored: {self._aside}; `bloomdupe info URL`"
                " says why."
            )
        said.append("They stay in Redis. Mend the cause, and start a worker again")
        return " ".join(said)

    def close(self, reason: str) -> None:
        """See :meth:`Engine.close`."""
        self.give_back(None)
        self._closed = True
        if self._state is not None:
            self._state.end()
        self._watch.end()
        error = self._worker.close(reason)
        if error is not None:
            self._session.stopping.fail(error)
        if self._finished:
            self._stats.set_value("bloomdupe/later", self.later)
        if self._failures is not None:
            self._stats.set_value("bloomdupe/failed", sum(self._failed.values()))
            log_failures(self._failed, self._frontier.shown)
        if self._session.stopping.failure is None:
            where = " by this worker"
            if self._whole is not None:
                pages, items = self._whole.pages, self._whole.items
                both = f"{plural(pages, 'page')}, {plural(items, 'item')}"
                where += f"; {both} by all workers"
            if reason == FINISHED and self._feeds.feeds:
                where += (
                    f"; `bloomdupe collect {self._frontier.shown} DIRECTORY` writes"
                    " the items of all workers"
                )
            totals = self._worker_counts.totals
            self._session.ending.say_end(reason, totals, where, pending=False)

    # Calls of the thread

    def _retry_failed(self) -> Retried | None:
        """Retry failed requests of all workers, before this worker leases any."""
        reasons = self._session.settings.retry_failed
        if self._failures is None or reasons is None:
            return None
        rules = Blocked(self._frontier.rules, self._session.fingerprint)

        def blocks(slot: str, payload: bytes) -> bool:
            return rules.blocks(slot, payload, self._session.request_of)

        return self._failures.retry(reasons, blocks)

    def _count_all(self) -> None:
        """Count the requests of all workers, when this worker has ended."""
        self._whole = self._look.look(now=True)
        if self._failures is not None:
            self._failed = self._failures.count()

    # Reports of the thread (see WorkerReports)

    def handed_out(self, leases: Sequence[RedisLease]) -> None:
        """Take requests to work on."""
        if self._closed:
            return
        self._finished = False
        self._later.found(LeftOver())
        for lease in leases:
            message = message_of(lease.payload)
            page = PageOnRedis(
                message.name,
                lease,
                message.put_out,
                is_start=message.kind == START_PAGE,
            )
            entry = self._at_hand.push(
                lease.slot,
                lease.priority,
                message.body,
                start=lease.again.start,
            )
            self._session.leases.expect(entry, Position(page.name), own=page)
            self._from_redis[lease.slot] += 1
            self._go_on_with(lease)
        self._access.wake()

    def _go_on_with(self, lease: RedisLease) -> None:
        """Go on with the state of a slot as its last owner has left it."""
        self._states.restore(lease, self._frontier.clock_ahead)
        last = self._frontier.last_owner_until(lease)
        if last is not None:
            self._last_requests.sent(lease.slot, last)

    def cookies(self, news: Sequence[bytes]) -> None:
        """Apply the cookies that other workers have changed."""
        if self._cookies is not None and not self._closed:
            self._cookies.take(news)

    def rests(self, news: Sequence[bytes]) -> None:
        """Begin the rests of slots that other workers have begun."""
        if not self._closed:
            self._rests.take(news, self._frontier.clock_ahead)

    def give_back(self, partitions: frozenset[int] | None) -> None:
        """Begin no more requests of partitions that other workers will get.

        None: of any partition.
        """
        if self._closed:
            return
        known = self._session.leases

        def is_theirs(entry: Entry) -> bool:
            page: Any = known.own_of(entry)
            lease = page.lease
            return lease is not None and (
                partitions is None or lease.partition in partitions
            )

        pages: list[Any] = list(map(known.forget, self._at_hand.withdraw(is_theirs)))
        leases = [page.lease for page in pages]
        self._from_redis.subtract(lease.slot for lease in leases)
        self._worker.not_begin(leases)

    def retried(self, retried: Retried) -> None:
        """Count and log the failed requests that are pending again."""
        self._stats.set_value("bloomdupe/retried_failures", retried.requests)
        if retried.failed:
            log_retried(retried.requests, retried.failed, retried.other)
        if retried.blocked:
            self._stats.inc_value("bloomdupe/dropped_blocked", retried.blocked)

    def ruled(self, rules: list[dict[str, Any]]) -> None:
        """Obey the rules that a user has changed."""
        if not self._closed:
            self.blocked.obey(rules)
            self.blocked.say(self._spider)

    def known(self, count: int) -> None:
        """Count duplicates of offers by this or another worker."""
        if not self._closed:
            self._stats.inc_value("dupefilter/filtered", count)
            self._worker_counts.known += count

    def judged(self, answers: Sequence[tuple[Offer, int]]) -> None:
        """Remember accepted requests; count those that their slots have no room for.

        A refused request is not marked, so it may be offered again.
        """
        if self._closed:
            return
        for offer, taken in answers:
            kind = REFUSALS.get(taken)
            if kind is not None:
                self._limits.refuse(kind, offer.slot)
                self._stats.inc_value("scheduler/enqueued", -1)
                self._stats.inc_value("scheduler/enqueued/redis", -1)
            elif offer.known_as is not None:
                self._seen.add(offer.known_as)

    def answered(self, answers: Sequence[tuple[Any, bool]]) -> None:
        """Begin with requests that cannot be stored, unless they were done before."""
        if not self._closed:
            self._in_memory.answered(answers)
            self._access.wake()

    def accepted(self, leases: Sequence[RedisLease], sure: bool) -> None:
        """See :meth:`RequestsInMemory.accepted`."""
        if not self._closed:
            self._in_memory.accepted(leases, sure=sure)

    def refused(self, leases: Sequence[RedisLease]) -> None:
        """Count and log pages that were settled too late, and are done again."""
        self._in_memory.refused(leases)
        if self._closed:
            return
        self._stats.inc_value("bloomdupe/refused_settlements", len(leases))
        logger.warning(
            "%(count)d pages were settled after their lease had run out: they are"
            " fetched again, and their items of this time do not count. Was the process"
            " stopped, or Redis away, for longer than BLOOMDUPE_REDIS_LEASE?",
            {"count": len(leases)},
            extra={"spider": self._spider},
        )

    def looked(self, point: Point) -> None:
        """Remember the state of the whole crawl."""
        if not self._closed:
            self._whole = point

    def finished(self, offered: int, left: LeftOver) -> None:
        """Let the crawl end, or sleep, because nothing but this is pending.

        Does nothing if this worker has offered requests since the look.
        """
        if self._closed or self._worker.offered != offered:
            return
        self._finished = True
        self._left, self._aside = left.left, left.aside
        self._later.found(left)
        self._access.wake()

    def asked_to_stop(self, over: bool) -> None:
        """Close the crawl; ``over`` says whether nothing is pending."""
        if not self._closed:
            self._finished = self._finished and over
            self._session.stopping.stop()

    def interrupted(self) -> None:
        """Forget the seen requests, because Redis may have lost its last writes.

        The frontier repeats the offers of pages that this worker has not settled yet.
        But a page that was settled in the lost moment is done again, and its links must
        not be skipped then.
        """
        if not self._closed:
            self._seen.clear()
            self._session.forget_links()

    def failed(self, error: BaseException) -> None:
        """Stop the crawl, because no request reaches Redis any more."""
        if not self._closed:
            self._session.stopping.fail(error)


def _lines_of(outcome: Outcome) -> list[bytes]:
    """Take the lines out of an outcome: each with the number of its feed."""
    lines, outcome.lines = outcome.lines, []
    return [b"%d %b" % line for line in lines]
