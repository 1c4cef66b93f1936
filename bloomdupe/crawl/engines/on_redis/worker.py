"""Worker: the thread that talks to Redis, so that the reactor never waits for it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any, TypeVar

from bloomdupe.crawl.engines.on_redis.heartbeat import Heartbeat
from bloomdupe.crawl.engines.on_redis.messages import (
    FAILED,
    ITEM,
    failed_in,
    message_of,
    taken_apart,
    with_loss,
)
from bloomdupe.crawl.engines.on_redis.shared_totals import with_duplicates
from bloomdupe.errors import StoreAccessError, StoreFullError, StoreUnreachableError
from bloomdupe.printable import logger_of
from bloomdupe.redis.partition import Settled, Taken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bloomdupe.crawl.engines.on_redis.shared_failures import Retried
    from bloomdupe.crawl.engines.on_redis.worker_reports import InMemory, WorkerReports
    from bloomdupe.crawl.progress.history import Point
    from bloomdupe.redis.partition import Offer, RedisLease, SeenMark
    from bloomdupe.redis.shared_frontier import SharedFrontier

    Result = TypeVar("Result")

__all__ = ["Worker"]

logger = logger_of(__name__)

SHORTEST, LONGEST = 0.02, 1.0
"""Seconds between two requests to Redis, while it has no work for this worker."""
LOOK = 0.5
"""Seconds between two looks for workers that have come or gone."""
LONGEST_SLEEP = 5.0
"""Seconds between two looks for the end while requests are scheduled for later; sooner
if one of them is due.
"""
GATHERING = 0.1
"""Seconds for which offers and settlements are gathered while enough requests are at
hand: the more of them are in a script, the less each costs Redis.
"""
EVERYWHERE = 0.1
"""Seconds between two looks for requests that only other workers can have offered."""
TENDING = 4
"""Number of times that a lease is renewed before it would run out."""
PATIENCE = 5.0
"""Seconds that Redis may take to answer when the crawl closes."""
TROUBLE = (StoreUnreachableError, StoreFullError, StoreAccessError)
"""Errors from which a server recovers: the crawl waits for it."""


@dataclass
class _Calls:
    """Calls of the reactor that the thread has not carried out yet."""

    news: list[tuple[bytes, bytes]] = field(default_factory=list)
    offers: list[Offer] = field(default_factory=list)
    done: list[Settled] = field(default_factory=list)
    marks: list[SeenMark] = field(default_factory=list)
    asked: list[tuple[SeenMark, InMemory]] = field(default_factory=list)
    not_begun: list[RedisLease] = field(default_factory=list)
    again: set[str] = field(default_factory=set)

    @property
    def are_urgent(self) -> bool:
        """Whether some of them do not wait for the next look at Redis."""
        return bool(self.offers or self.done or self.asked or self.not_begun)


class Worker(Thread):
    """Offers, settles and leases in batches, and renews the leases of its partitions.

    The calls of the reactor are carried out in their order, offers before settlements,
    so the children of a page are in Redis when the page is settled. While Redis is away
    everything waits.
    """

    crawl: WorkerReports
    """Receives the reports; given before the thread starts."""
    is_closing = False
    """Whether the engine closes, on the thread of the reactor."""

    def __init__(
        self,
        frontier: SharedFrontier,
        lease_seconds: float,
        *,
        cookies: bool,
        first: Callable[[], Retried | None],
        last: Callable[[], None],
        look: Callable[[], Point | None],
        look_every: float,
        in_callback: Callable[[], RedisLease | None],
    ) -> None:
        """``first`` and ``last`` are called on this thread, when it has partitions.

        In between, ``look`` returns the state of the crawl, so many seconds after the
        last time. ``in_callback`` returns the request whose callback runs just now.
        """
        super().__init__(name="bloomdupe-redis", daemon=True)
        self._frontier = frontier
        self._tend_every = lease_seconds / TENDING
        self._gathering = min(GATHERING, self._tend_every / TENDING)
        self._tend_at = self._look_at = self._everywhere_at = self._end_at = 0.0
        self._with_cookies = cookies
        self._first, self._last = first, last
        self._look, self._glance_every = look, look_every
        self._glance_at = 0.0
        self._in_callback = in_callback
        self._post = _poster()
        self._reactor = Heartbeat(self._post, self._tend_every, lease_seconds)
        self._changed = Condition()
        self._calls = _Calls()
        self._wanted = 0
        self._closing: float | None = None
        self._stops = self._over = False
        self._interruptions = frontier.interruptions
        self._rules = frontier.rules
        self._duplicates = 0
        """Duplicates that Redis has found, for the counts of all workers."""
        self.offered = 0
        """Number of requests that were ever offered."""

    # On the thread of the reactor

    def keep_news(self, changes: list[tuple[bytes, bytes]]) -> None:
        """Send news to the other workers, before any later offer."""
        with self._changed:
            self._calls.news += changes

    def offer(self, offer: Offer) -> None:
        """Offer a request."""
        with self._changed:
            self._calls.offers.append(offer)
            self.offered += 1
            self._changed.notify()

    def settle(self, done: Settled) -> None:
        """Settle or leave a request, after all its children were offered."""
        with self._changed:
            self._calls.done.append(done)
            self._changed.notify()

    def mark(self, marks: Iterable[SeenMark]) -> None:
        """Mark requests as seen, after all earlier calls are carried out."""
        with self._changed:
            self._calls.marks += marks

    def ask(self, mark: SeenMark, local: InMemory) -> None:
        """Ask whether a request counts as seen."""
        with self._changed:
            self._calls.asked.append((mark, local))
            self._changed.notify()

    def ask_again(self, slot: str) -> None:
        """Let a slot have its next turn."""
        with self._changed:
            self._calls.again.add(slot)

    def not_begin(self, leases: Sequence[RedisLease]) -> None:
        """Leave requests that are not begun to other workers."""
        with self._changed:
            self._calls.not_begun += leases
            self._changed.notify()

    def want(self, count: int) -> None:
        """Set how many more requests are wanted now."""
        if count == self._wanted:
            return
        with self._changed:
            self._wanted = count
            self._changed.notify()

    def close(self, reason: str) -> BaseException | None:
        """Carry out the remaining calls, give all partitions back, and end."""
        self._reason = reason
        with self._changed:
            self._closing = time.monotonic() + PATIENCE
            self._changed.notify()
        self.join()
        return self._error

    # On its own thread

    _error: BaseException | None = None
    _reason = ""

    def run(self) -> None:
        """Work until the crawl closes; called when the thread starts."""
        try:
            self._patiently(self._keep_partitions)
            retried = self._patiently(self._first)
            if retried is not None:
                self._post(self.crawl.retried, retried)  # also at the end
            self._work()
        except BaseException as error:  # noqa: BLE001 - the reactor is told
            self._error = error
            self._tell(self.crawl.failed, error)

    def _work(self) -> None:
        pause = SHORTEST
        while True:
            with self._changed:
                if not (self._calls.are_urgent or self._closing):
                    self._changed.wait(pause)
                self._changed.wait_for(self._hurries, self._gathering)
                calls, self._calls = self._calls, _Calls()
                offered = self.offered
                wanted, closing = self._wanted, self._closing
            wanted = 0 if self._reactor.is_lost else wanted
            self._patiently(self._keep_partitions)
            self._glance()
            if calls.news:
                self._patiently(self._frontier.news.keep, calls.news)
            self._offer_and_settle(calls.offers, calls.done)
            self._mark_and_ask(calls)
            if closing:
                self._end(calls.not_begun)
                return
            if calls.not_begun:
                self._patiently(self._frontier.not_begun, calls.not_begun)
            for slot in calls.again:
                self._frontier.ask_again(slot)
            self._stop_if_asked(offered)
            leased = bool(wanted) and self._lease(wanted)
            if calls.offers or calls.done or calls.asked or leased:
                pause, self._end_at = SHORTEST, 0.0
                continue
            if wanted and not self._over and time.monotonic() >= self._end_at:
                self._look_for_end(offered)
            pause = min(2 * pause, LOOK, self._tend_every)

    def _end(self, not_begun: list[RedisLease]) -> None:
        """Give everything back."""
        try:
            self._patiently(self._last)
        finally:
            self._patiently(self._frontier.close, not_begun, self._reason)

    def _hurries(self) -> bool:
        """Whether the reactor waits for the results of the next calls."""
        calls = self._calls
        return bool(self._wanted or calls.asked or calls.not_begun or self._closing)

    def _keep_partitions(self) -> None:
        """Renew the leases when it is time, and share with workers that have come."""
        begun = time.monotonic()
        tends = begun >= self._tend_at
        if not tends and begun < self._look_at:
            return
        if tends and self._reactor.beat():
            self._note_loss()
        if not self._reactor.is_lost:
            share = self._frontier.tend if tends else self._frontier.look_around
            share()
            if self._frontier.returning:
                self._tell(self.crawl.give_back, self._frontier.returning)
            if self._rules != self._frontier.rules:
                self._rules = self._frontier.rules
                self._tell(self.crawl.ruled, self._rules)
        self._look_at = begun + LOOK
        if tends:
            self._tend_at = begun + self._tend_every

    def _note_loss(self) -> None:
        """Note with the request that blocks the reactor that it costs the lease."""
        lease = self._in_callback()
        if lease is not None:
            now = time.time() + self._frontier.clock_ahead
            self._frontier.rewrite(lease, with_loss(lease.payload, now))

    def _hear(self) -> None:
        """Pass on the news of other workers."""
        if news := self._frontier.news.read():
            self._tell(self.crawl.heard, news)

    def _glance(self) -> None:
        """Look at the whole crawl when it is time."""
        if time.monotonic() >= self._glance_at:
            point = self._patiently(self._look)
            if point is not None:
                self._tell(self.crawl.looked, point)
            self._glance_at = time.monotonic() + self._glance_every

    def _offer_and_settle(self, offers: list[Offer], done: list[Settled]) -> None:
        """Offer, and then settle, because all children must be offered before."""
        if offers or done:
            self._over = False
        if offers:
            new = self._patiently(self._frontier.offer, offers)
            if known := new.count(Taken.SEEN):
                self._tell(self.crawl.known, known)
                pairs = zip(offers, new, strict=True)
                self._duplicates += sum(
                    answer == Taken.SEEN and _is_link(offer) for offer, answer in pairs
                )
            judged = [both for both in zip(offers, new, strict=True) if both[0].bounds]
            if judged:
                self._tell(self.crawl.judged, judged)
        if done:
            if self._duplicates:
                done[0] = with_duplicates(done[0], self._duplicates)
                self._duplicates = 0
            interruptions = self._frontier.interruptions
            refused = self._patiently(self._frontier.settle, done)
            sure = interruptions == self._frontier.interruptions
            if refused:
                self._tell(self.crawl.refused, refused)
            tokens = {lease.token for lease in refused}
            marked = [one.lease for one in done if one.marks]
            if accepted := [one for one in marked if one.token not in tokens]:
                self._tell(self.crawl.accepted, accepted, sure)

    def _mark_and_ask(self, calls: _Calls) -> None:
        """Mark requests, and look up which requests count as seen."""
        if calls.marks:
            self._patiently(self._frontier.mark_seen, calls.marks)
        if calls.asked:
            marks = [mark for mark, _ in calls.asked]
            known = self._patiently(self._frontier.knows, marks)
            who = (local for _, local in calls.asked)
            self._tell(self.crawl.answered, list(zip(who, known, strict=True)))

    def _stop_if_asked(self, offered: int) -> None:
        if self._frontier.asked_to_stop and not self._stops:
            self._stops = True
            over = self._look_for_end(offered)
            self._tell(self.crawl.asked_to_stop, over)

    def _look_for_end(self, offered: int) -> bool:
        left = self._patiently(self._frontier.left_over)
        self._over = left is not None and not left.later
        if left is not None:
            seconds = min(left.due - time.time(), LONGEST_SLEEP)
            self._end_at = time.monotonic() + max(seconds, 0)
            self._tell(self.crawl.finished, offered, left)
        return self._over

    def _lease(self, wanted: int) -> bool:
        """Lease requests; return whether there were any."""
        everywhere = time.monotonic() >= self._everywhere_at
        leases = self._patiently(
            partial(self._frontier.lease, wanted, everywhere=everywhere)
        )
        if everywhere:
            self._everywhere_at = time.monotonic() + EVERYWHERE
        if not leases:
            return False
        self._over = False
        requests = []
        for lease in leases:
            message = message_of(lease.payload)
            if message.kind == ITEM:
                lines = taken_apart(message.body)
                self._settle_here(Settled(lease, lines, counts=message.counts))
            elif message.kind == FAILED:
                self._settle_here(Settled(lease, failed=failed_in(message.body)))
            else:
                requests.append(lease)
        with self._changed:
            self._wanted = max(0, self._wanted - len(requests))
        if requests and self._with_cookies:
            # After the lease: the workers that have offered these requests had sent
            # their cookies before.
            self._patiently(self._hear)
        if requests:
            self._tell(self.crawl.handed_out, requests)
        return True

    def _settle_here(self, done: Settled) -> None:
        """Settle a message that the reactor need not see."""
        self._offer_and_settle([], [done])
        self._frontier.ask_again(done.lease.slot)

    def _patiently(self, call: Callable[..., Result], *arguments: object) -> Result:
        """Repeat a call until Redis answers; repeating it is harmless."""
        wait = SHORTEST
        said = False
        while True:
            try:
                result = call(*arguments)
            except TROUBLE as error:
                if self._closing is not None and time.monotonic() > self._closing:
                    raise
                if not said:
                    logger.warning(
                        "The crawl waits for its Redis: %(error)s", {"error": error}
                    )
                said = True
            else:
                if said:
                    logger.info("Redis answers again; the crawl goes on")
                if self._interruptions != self._frontier.interruptions:
                    self._interruptions = self._frontier.interruptions
                    # Before the answer is used, which may hold a page to do again.
                    self._tell(self.crawl.interrupted)
                return result
            time.sleep(wait)
            # All workers are back within a lease, before any partition is taken.
            wait = min(2 * wait, LONGEST, self._tend_every)

    def _tell(self, report: Callable[..., None], *arguments: object) -> None:
        """Make a report, which changes nothing any more if the engine has closed."""

        def tell() -> None:
            if not self.is_closing:
                report(*arguments)

        self._post(tell)


def _is_link(offer: Offer) -> bool:
    """Whether a page has yielded this request, and it may be a duplicate."""
    return offer.of is not None and offer.known_as is not None


def _poster() -> Callable[..., Any]:
    """Return a function that runs another function on the thread of Scrapy."""
    from twisted.internet import reactor

    loop: Any = reactor
    return loop.callFromThread  # type: ignore[no-any-return]
