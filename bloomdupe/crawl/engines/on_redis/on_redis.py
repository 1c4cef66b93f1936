"""EngineOnRedis: the engine of a crawl that several workers share."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.engines.on_redis.going.names import name_of
from bloomdupe.crawl.engines.on_redis.going.shared_lease import SharedLease as Lease
from bloomdupe.crawl.engines.on_redis.going.shared_session import SharedRecords
from bloomdupe.crawl.engines.on_redis.going.start_outputs import (
    SharedStartItem as StartItem,
)
from bloomdupe.crawl.engines.on_redis.going.start_outputs import StartOutputs
from bloomdupe.crawl.engines.on_redis.joining import open_frontier
from bloomdupe.crawl.engines.on_redis.messages import losses_in, with_answers
from bloomdupe.crawl.engines.on_redis.reports import Reports
from bloomdupe.crawl.engines.on_redis.requests.at_hand import AtHand
from bloomdupe.crawl.engines.on_redis.requests.later_on_redis import LaterOnRedis
from bloomdupe.crawl.engines.on_redis.requests.making_offers import MakingOffers
from bloomdupe.crawl.engines.on_redis.requests.requests_in_memory import (
    RequestsInMemory,
)
from bloomdupe.crawl.engines.on_redis.shared_cookies import SharedCookies
from bloomdupe.crawl.engines.on_redis.shared_failures import SharedFailures
from bloomdupe.crawl.engines.on_redis.shared_feeds import SharedFeeds
from bloomdupe.crawl.engines.on_redis.shared_look import SharedLook
from bloomdupe.crawl.engines.on_redis.shared_standing import SharedStanding
from bloomdupe.crawl.engines.on_redis.slots.inherited_slot import forget_inherited_slot
from bloomdupe.crawl.engines.on_redis.slots.slot_states import SlotStates
from bloomdupe.crawl.engines.on_redis.worker import Worker
from bloomdupe.crawl.engines.on_redis.worker_counts import WorkerCounts
from bloomdupe.crawl.leases.outcomes import Outcome
from bloomdupe.crawl.progress.pace import plural
from bloomdupe.crawl.progress.rounds import FINISHED
from bloomdupe.crawl.progress.slot_times import SlotTimes
from bloomdupe.crawl.progress.standing import Standing
from bloomdupe.crawl.progress.watch import Watch, glance_of
from bloomdupe.crawl.starting import is_fresh_start
from bloomdupe.crawl.state.cookies import PackedCookies
from bloomdupe.crawl.state.failures import log_failures
from bloomdupe.crawl.state.limits import SlotLimits
from bloomdupe.crawl.state.rules import Rules, RulesInForce
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.inside_scrapy.cookie_jars import CookieJars
from bloomdupe.printable import logger_of, printable
from bloomdupe.redis.partition import (
    Offer,
    Settled,
)
from bloomdupe.redis.shared_frontier import SharedFrontier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy import Request

    from bloomdupe.crawl.dupefilter import BloomDupeFilter
    from bloomdupe.crawl.engines.crawl_job import CrawlJob
    from bloomdupe.crawl.engines.on_redis.going.shared_offer import (
        SharedOffer as Accepted,
    )
    from bloomdupe.crawl.engines.on_redis.going.shared_session import (
        SharedSession as Session,
    )
    from bloomdupe.crawl.engines.on_redis.requests.page_on_redis import PageOnRedis
    from bloomdupe.crawl.engines.on_redis.shared_failures import Retried
    from bloomdupe.crawl.leases.outcomes import Line
    from bloomdupe.frontier.slot_queue import Entry
    from bloomdupe.redis.partition import AboutSlot, RedisLease
    from bloomdupe.redis.settled.failed_requests import FailedRequest

__all__ = ["EngineOnRedis"]

logger = logger_of(__name__)

MOST_LOSSES = 3
"""Workers that a request may cost their lease; then it is set aside."""


class EngineOnRedis:
    """Keeps requests on Redis, for all workers with its URL: an :class:`Engine`.

    Each worker is a process that runs ``scrapy crawl`` with the same settings. The
    workers share the hosts; if a worker dies, other workers do its requests in progress
    again. See :class:`bloomdupe.redis.shared_frontier.SharedFrontier`.

    Redis answers later, on another thread, which reports the answers (see
    :class:`bloomdupe.crawl.engines.on_redis.reports.Reports`).

    ``spider.state`` is a dictionary. Each worker has its own, which ends with it.
    """

    durable = has_feeds = True
    hurries = holds = False
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
        self._feeds = SharedFeeds(
            crawler, session.serializer, session.take_item, session.stopping.fail
        )
        order = session.order
        # Requests that this worker has offered, and that Redis has handed out to it.
        self._seen = dupefilter.open_shared(job.recent())
        self._queue = Frontier(
            self._seen,
            fifo=order.fifo,
            start_fifo=order.start_fifo,
            wait=session.slots.wait,
        )
        session.slots.attach(self._queue)
        if self._access.throttled:
            session.slots.restore_delays()
        self._states = SlotStates(session.slots, self._access, self._queue)
        limits = SlotLimits(settings, self._queue, session.stats)
        assert settings.redis_url is not None  # noqa: S101 - it was checked
        self._frontier = open_frontier(
            SharedFrontier,
            settings.redis_url,
            job,
            self._feeds.feeds,
            lease_seconds=settings.redis_lease,
            fifo=order.fifo,
            stays=settings.stay,
        )
        self.rules = RulesInForce(
            Rules.of({"blocked": self._frontier.rules}),
            partial(session.stats.inc_value, "bloomdupe/dropped_blocked"),
        )
        again = settings.start_requests == "again"
        number = self._frontier.begin_round(again=again)
        self.starting = StartOutputs(session.processing, number, session.fingerprint)
        self._cookies = self._shared_cookies()
        self._look = SharedLook(
            self._frontier, glance_of(settings), settings.max_failures
        )
        self._worker = Worker(
            self._frontier,
            settings.redis_lease,
            cookies=self._cookies is not None,
            first=self._retry_failed,
            last=self._count_all,
            look=self._look.look,
            look_every=glance_of(settings),
            in_callback=self._in_callback,
        )
        self._begun = time.time() + self._frontier.clock_ahead
        self._in_memory = RequestsInMemory(
            session, self._worker, self._frontier, self._queue, self._seen
        )
        self._later = LaterOnRedis(session, self._frontier)
        self._offers = MakingOffers(
            session, self._worker, self._later, self._seen, limits
        )
        self._at_hand = AtHand(
            session,
            self._worker,
            self._frontier,
            self._queue,
            self._states,
        )
        self._standing = SharedStanding(self._worker, self._later)
        self._failures = self._open_failures()
        self._failed: dict[str, int] = {}
        """Failed requests of all workers by reason, when this worker ends."""
        self._worker_counts = WorkerCounts(session.stats)
        self._worker.crawl = Reports(
            session,
            self._frontier,
            self._seen,
            at_hand=self._at_hand,
            offers=self._offers,
            in_memory=self._in_memory,
            standing=self._standing,
            counts=self._worker_counts,
            rules=self.rules,
            cookies=self._cookies,
        )
        self._watch = Watch(
            session,
            self._queue,
            self._worker_counts,
            self._failures,
            SlotTimes(
                self._queue,
                self._access,
                session.slots.resting,
                lambda: self._worker_counts.totals.by_slot,
            ),
            self._frontier.shown,
            line=self._line_of_worker,
            whole=self._standing.of_all,
            schedule=self._later,
        )

    def _line_of_worker(self, line: str) -> str:
        """Return the line on this worker for the log; Redis is not asked for it."""
        owned, all_of_them = len(self._frontier.owned), self._frontier.partitions
        of = plural(all_of_them, "partition")
        return f"This worker: {line}; {owned} of {of}{self._standing.said('page')}"

    def _open_failures(self) -> SharedFailures | None:
        session, limit = self._session, self._session.settings.max_failures
        if not limit:
            return None
        records = SharedRecords(session.serializer, session.fingerprint)
        return SharedFailures(records, self._frontier, limit)

    def _shared_cookies(self) -> SharedCookies | None:
        jars = CookieJars.of(self._session.crawler)
        if jars is None:
            return None
        packed = PackedCookies(self._session.serializer, self._spider)
        return SharedCookies(jars, packed)

    def open(self) -> None:
        """Begin to talk to Redis."""
        self._session.slots.begin()
        self._worker.start()
        self._at_hand.begin()
        self._watch.begin_run()
        self._watch.begin()
        extra = {"spider": self._spider}
        logger.info(
            "This is worker %(worker)s on %(shown)s",
            {"worker": self._frontier.worker, "shown": self._frontier.shown},
            extra=extra,
        )
        self._stats.set_value("bloomdupe/round", self.starting.round)
        self.rules.say(self._spider)

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

    def knows(self, key: bytes, *, exact: bool) -> bool:  # noqa: ARG002 - none is
        """See :meth:`Engine.knows`.

        Only Redis knows the offers of other workers: a duplicate of these is skipped,
        too, and counted when Redis has answered.
        """
        return self._seen.contains(key)

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
                self._offers.offer(offer)
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
        self._send_cookies()
        self._offers.hold(offer)
        self._stats.inc_value("scheduler/enqueued")

    def let_go(self, lease: Lease) -> None:
        """See :meth:`Engine.let_go`."""
        instead, lease.instead = lease.instead, None
        if not self._worker.is_closing:
            self._worker.offer(instead)

    def _send_cookies(self) -> None:
        """Send the cookies that this worker has changed to Redis."""
        if self._cookies is not None:
            changes = self._cookies.changes()
            if changes:
                self._worker.keep_news(changes)

    # Handing out

    def next(self) -> Entry | None:
        """See :meth:`Engine.next`."""
        entry = self._at_hand.next()
        if entry is None and self._sleeps:
            self._session.ending.look()
        return entry

    def seconds_until_ready(self) -> float | None:
        """See :meth:`Engine.seconds_until_ready`."""
        return self._queue.seconds_until_ready()

    def begin(self, lease: Lease) -> None:
        """See :meth:`Engine.begin`."""
        request, page = lease.request, lease.own
        lease.answers_before = lease.root.own.answers
        # One in memory has no message that says so.
        page.is_start = page.is_start or (
            request.dont_filter and is_fresh_start(request)
        )
        if page.is_start:
            self.starting.add_page(self._session.fingerprint(request))

    def release(self, entry: Entry) -> None:
        """See :meth:`Engine.release`."""
        self._queue.release(entry)

    def set_aside(self, entry: Entry, why: str) -> None:
        """See :meth:`Engine.set_aside`."""
        self._set_aside(entry, why)

    def _set_aside(
        self, entry: Entry, why: str, failed: FailedRequest | None = None
    ) -> None:
        lease: RedisLease = self._at_hand.remove(entry).lease
        left = Settled(lease, left=lease.payload, reason=printable(why), failed=failed)
        self._worker.settle(left)
        self._worker.ask_again(lease.slot)

    def keeps_out(self, entry: Entry, request: Request) -> bool:
        """See :meth:`Engine.keeps_out`.

        Any worker that did not know the rule yet may have offered the request.
        """
        page: Any = self._session.leases.own_of(entry)
        lease: RedisLease | None = page.lease
        if lease is None:
            return False
        if self._gives_up(entry, request, lease):
            return True
        if not self.rules.drop(lease.slot, request.url):
            return False
        self._at_hand.remove(entry)
        failed = None
        if self._failures is not None:
            failed = self._failures.kept_out(request, lease)
        self._worker.settle(Settled(lease, failed=failed))
        self._worker.ask_again(lease.slot)
        return True

    def _gives_up(self, entry: Entry, request: Request, lease: RedisLease) -> bool:
        """Set a request aside that has cost several workers their lease.

        A worker that has begun since then tries it once more.
        """
        times, last = losses_in(lease.payload)
        if times < MOST_LOSSES or last < self._begun:
            return False
        why = f"its callback has blocked a worker for four leases, {times} times"
        failed = None
        if self._failures is not None:
            failed = self._failures.given_up(request, lease, why)
        self._set_aside(entry, f"{request.url}: {why}", failed)
        self._session.ending.leaves(request.url, why)
        logger.error(
            "A request is set aside, and stays in the job: %(request)s - reason:"
            " %(reason)s (BLOOMDUPE_REDIS_LEASE)",
            {"request": request.url, "reason": why},
            extra={"spider": self._spider},
        )
        return True

    # The end of requests

    def ended(self, lease: Lease, *, whole: bool) -> None:
        """See :meth:`Engine.ended`."""
        self._queue.settle(lease.entry)
        failed = None
        if whole and self._failures is not None:
            failed = self._failures.ended(lease)
        if failed is None:
            return
        page: PageOnRedis = lease.own
        if page.lease is not None:
            page.failed = failed
        else:
            self._offers.failure(lease, failed)

    def settle(self, root: Lease) -> None:
        """See :meth:`Engine.settle`."""
        page: PageOnRedis = root.own
        if self._session.stopping.failure is not None:
            root.broken = True  # this very page may have caused the failure
            self.leave(root)
            return
        self._send_cookies()
        of = root.top.own.lease
        for part in root.held:
            self._offers.lines_of(part.own, _lines_of(part.outcome), of)
        lines = _lines_of(root.outcome)
        counts = self._worker_counts.settle(
            root.outcome, *(part.outcome for part in root.held)
        )
        if page.lease is None:
            self._offers.lines_of(page, lines, of)
            if counts:
                self._offers.lines(name_of(b"counts", page.name), [], of, counts)
            self._in_memory.settle(root)
            return
        marks = self._in_memory.settling(root)
        done = page.done(root, lines, marks, counts)
        about = self._state_of(page.lease, done.instead)
        self._worker.settle(done._replace(about=about))

    def leave(self, root: Lease) -> None:
        """See :meth:`Engine.leave`."""
        page: PageOnRedis = root.own
        root.left = True
        self._in_memory.leave(root)
        outcome, root.own_outcome = root.own_outcome, Outcome()
        answers = root.answers_after
        lease = page.lease
        if lease is None and root.of_page is None:  # Redis does not know it
            self._session.ending.leaves(root.request.url, "it broke off", apart=True)
        if self._worker.is_closing:
            return
        if lease is not None:
            self._stats.inc_value("bloomdupe/unfinished")
            left = Settled(
                lease,
                about=self._state_of(lease),
                left=lease.payload,
                is_ending=root.cut,  # by CloseSpider, which closes this worker
            )
            if answers is not None:
                left = left._replace(
                    lines=_lines_of(outcome),
                    counts=self._worker_counts.settle(outcome),
                    left=with_answers(lease.payload, answers),
                )
            self._worker.settle(left)
        elif (
            root.of_page is None
            and answers is not None
            and not root.request.meta.get("is_start_request")  # start() yields it again
        ):
            self._offers.lines_of(page, _lines_of(outcome))

    def _state_of(
        self, lease: RedisLease, instead: Sequence[Offer] = ()
    ) -> AboutSlot | None:
        """Return the state of a request's slot, if it is not stored yet.

        The requests that take its place may be scheduled for later.
        """
        ahead = self._frontier.clock_ahead
        due = max((one.not_before or 0.0 for one in instead), default=0.0)
        return self._states.changed(lease, ahead, due)

    # Output

    def add_line(self, outcome: Outcome, line: Line) -> None:
        """See :meth:`Engine.add_line`."""
        outcome.lines.append(line)

    def put(self, outcome: Outcome, work: object) -> None:
        """See :meth:`Engine.put`."""
        if self._worker.is_closing or type(work) is Lease:  # the page comes again
            return
        lines = _lines_of(outcome)
        name = os.urandom(16)
        if type(work) is StartItem:
            name = work.name
        counts = self._worker_counts.settle(outcome)
        if lines or counts:
            self._offers.lines(name, lines, counts=counts)

    # The end

    def __len__(self) -> int:
        """Count the requests on this worker that are not in progress yet."""
        return self._queue.pending

    @property
    def standing(self) -> Standing:
        """See :meth:`Engine.standing`: any worker may have pending requests."""
        # Redis does not know the requests here that cannot be stored.
        here = self._queue.pending + self._queue.waiting + self._in_memory.asked
        whole = self._standing
        return Standing(
            in_progress=whole.left - whole.later,
            later=whole.later,
            due_in=self._later.next_due - time.time(),
            more=here > 0 or not whole.ended,
        )

    def commit(self) -> None:
        """See :meth:`Engine.commit`: Redis has everything, or gets it when closed."""

    @property
    def _sleeps(self) -> bool:
        """Whether all workers sleep until a request is due."""
        return self._standing.ended and not (
            self._queue.pending or self._session.leases
        )

    @property
    def remedy(self) -> str:
        """See :attr:`Engine.remedy`."""
        return self._standing.remedy

    def close(self, reason: str) -> None:
        """See :meth:`Engine.close`."""
        self._at_hand.give_back(None)
        self._worker.is_closing = True
        self._watch.end()
        error = self._worker.close(reason)
        if error is not None:
            self._session.stopping.fail(error)
        if self._standing.ended:
            self._stats.set_value("bloomdupe/later", self._standing.later)
        if self._failures is not None:
            self._stats.set_value("bloomdupe/failed", sum(self._failed.values()))
            log_failures(self._failed, self._frontier.shown)
        if self._session.stopping.failure is None:
            where = f" by this worker{self._standing.said('page', 'item')}"
            if reason == FINISHED and self._feeds.feeds:
                where += (
                    f"; `bloomdupe collect {self._frontier.shown} DIRECTORY` writes"
                    " the items of all workers"
                )
            totals = self._worker_counts.totals
            self._session.ending.say_end(reason, totals, where, pending=False)

    # Calls of the thread

    def _in_callback(self) -> RedisLease | None:
        """Return the request of Redis whose callback blocks the reactor."""
        lease: Lease | None = self._session.processing.in_callback()
        if lease is None:
            return None
        page: PageOnRedis = lease.top.own
        return page.lease

    def _retry_failed(self) -> Retried | None:
        """Retry failed requests of all workers, before this worker leases any."""
        reasons = self._session.settings.retry_failed
        if self._failures is None or reasons is None:
            return None
        rules = Rules.of({"blocked": self._frontier.rules})
        return self._failures.retry(reasons, rules)

    def _count_all(self) -> None:
        """Count the requests of all workers, when this worker has ended."""
        self._standing.whole = self._look.look(now=True)
        if self._failures is not None:
            self._failed = self._failures.count()


def _lines_of(outcome: Outcome) -> list[bytes]:
    """Take the items for the output out of an outcome."""
    lines, outcome.lines = outcome.lines, []
    return [item for _, item in lines]
