"""Worker: the thread that talks to Redis, so that the reactor never waits for it."""

from __future__ import annotations

import asyncio
import sys
import time
from functools import partial
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from bloomdupe.crawl.engines.on_redis.heartbeat import Heartbeat
from bloomdupe.crawl.engines.on_redis.messages import (
    FAILED,
    ITEM,
    failed_in,
    message_of,
    taken_apart,
)
from bloomdupe.crawl.engines.on_redis.shared_totals import with_duplicates
from bloomdupe.errors import StoreAccessError, StoreFullError, StoreUnreachableError
from bloomdupe.printable import logger_of
from bloomdupe.redis.partition import Settled, Taken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bloomdupe.crawl.engines.on_redis.shared_failures import Retried
    from bloomdupe.crawl.progress.history import Point
    from bloomdupe.redis.frontier_reader import LeftOver
    from bloomdupe.redis.owner.named_worker import NamedWorker
    from bloomdupe.redis.partition import LeftRequest, Offer, RedisLease, SeenMark
    from bloomdupe.redis.shared_frontier import SharedFrontier

    InMemory = Any
    """A request that cannot be stored, as the crawl knows it."""
    Result = TypeVar("Result")

__all__ = ["Worker", "WorkerReports"]

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


class WorkerReports(Protocol):
    """Receives the reports of a worker, always on the thread of the reactor."""

    def handed_out(self, leases: Sequence[RedisLease]) -> None:
        """Take requests to work on."""

    def retried(self, retried: Retried) -> None:
        """Log the failed requests that are pending again."""

    def known(self, count: int) -> None:
        """Count so many of the offers as duplicates."""

    def judged(self, answers: Sequence[tuple[Offer, int]]) -> None:
        """Count the requests that are refused, because their slots have no room."""

    def cookies(self, news: Sequence[bytes]) -> None:
        """Apply the cookies that other workers have changed."""

    def rests(self, news: Sequence[bytes]) -> None:
        """Begin the rests of slots that other workers have begun."""

    def ruled(self, rules: list[dict[str, Any]]) -> None:
        """Obey these rules of ``bloomdupe block`` from now on."""

    def answered(self, answers: Sequence[tuple[InMemory, bool]]) -> None:
        """Begin requests, or drop them if they count as seen."""

    def accepted(self, leases: Sequence[RedisLease], sure: bool) -> None:
        """Treat the marked requests of these pages as duplicates from now on."""

    def give_back(self, partitions: frozenset[int]) -> None:
        """Begin no more requests of partitions that other workers will get."""

    def refused(self, leases: Sequence[RedisLease]) -> None:
        """Give these pages up: other workers do them, and their output is refused."""

    def looked(self, point: Point) -> None:
        """Remember the state of the whole crawl."""

    def finished(self, offered: int, left: LeftOver) -> None:
        """End the crawl, unless more was offered: nothing else is pending."""

    def asked_to_stop(self, over: bool) -> None:
        """Close the crawl; ``over`` says that nothing is pending."""

    def interrupted(self) -> None:
        """Forget the seen requests, because Redis may have lost some of the offers."""

    def failed(self, error: BaseException) -> None:
        """Stop the crawl because of an error."""


class Worker(Thread):
    """Offers, settles and leases in batches, and renews the leases of its partitions.

    The calls of the reactor are carried out in their order, offers before settlements,
    so the children of a page are in Redis when the page is settled. While Redis is away
    everything waits.
    """

    crawl: WorkerReports
    """Receives the reports; given before the thread starts."""

    def __init__(
        self,
        frontier: SharedFrontier,
        lease_seconds: float,
        *,
        cookies: bool,
        named: NamedWorker | None = None,
        first: Callable[[], Retried | None],
        last: Callable[[], None],
        look: Callable[[], Point | None],
        look_every: float,
    ) -> None:
        """``first`` and ``last`` are called on this thread, when it has partitions.

        In between, ``look`` returns the state of the crawl, so many seconds after the
        last time.
        """
        super().__init__(name="bloomdupe-redis", daemon=True)
        self._frontier = frontier
        self._tend_every = lease_seconds / TENDING
        self._gathering = min(GATHERING, self._tend_every / TENDING)
        self._tend_at = self._look_at = self._everywhere_at = self._end_at = 0.0
        self._with_cookies = cookies
        self._named = named
        self._first, self._last = first, last
        self._look, self._glance_every = look, look_every
        self._glance_at = 0.0
        self._post = _poster()
        self._reactor = Heartbeat(self._post, self._tend_every, lease_seconds)
        self._changed = Condition()
        # Calls of the reactor that this thread has not carried out yet:
        self._cookies: list[tuple[bytes, bytes]] = []
        self._rests: list[tuple[bytes, bytes]] = []
        self._state: list[bytes | None] = []
        self._offers: list[Offer] = []
        self._done: list[Settled] = []
        self._left: list[LeftRequest] = []
        self._marks: list[SeenMark] = []
        self._asked: list[tuple[SeenMark, InMemory]] = []
        self._not_begun: list[RedisLease] = []
        self._again: set[str] = set()
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

    def keep_cookies(self, changes: list[tuple[bytes, bytes]]) -> None:
        """Send cookies to the other workers, before any later offer."""
        with self._changed:
            self._cookies += changes

    def keep_rests(self, changes: list[tuple[bytes, bytes]]) -> None:
        """Send rests of slots to the other workers."""
        with self._changed:
            self._rests += changes

    def keep_state(self, state: bytes | None) -> None:
        """Keep the state of this worker, after all earlier settlements."""
        with self._changed:
            self._state = [state]
            self._changed.notify()

    def offer(self, offer: Offer) -> None:
        """Offer a request."""
        with self._changed:
            self._offers.append(offer)
            self.offered += 1
            self._changed.notify()

    def settle(self, done: Settled) -> None:
        """Settle a request, after all its children were offered."""
        with self._changed:
            self._done.append(done)
            self._changed.notify()

    def leave(self, left: LeftRequest) -> None:
        """Leave a request unsettled."""
        with self._changed:
            self._left.append(left)
            self._changed.notify()

    def mark(self, marks: Iterable[SeenMark]) -> None:
        """Mark requests as seen, after all earlier calls are carried out."""
        with self._changed:
            self._marks += marks

    def ask(self, mark: SeenMark, local: InMemory) -> None:
        """Ask whether a request counts as seen."""
        with self._changed:
            self._asked.append((mark, local))
            self._changed.notify()

    def ask_again(self, slot: str) -> None:
        """Let a slot have its next turn."""
        with self._changed:
            self._again.add(slot)

    def not_begin(self, leases: Sequence[RedisLease]) -> None:
        """Leave requests that are not begun to other workers."""
        with self._changed:
            self._not_begun += leases
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
                self._tell(self.crawl.retried, retried)
            self._work()
        except BaseException as error:  # noqa: BLE001 - the reactor is told
            self._error = error
            self._tell(self.crawl.failed, error)

    def _work(self) -> None:
        pause = SHORTEST
        while True:
            with self._changed:
                if not self._has_calls():
                    self._changed.wait(pause)
                self._changed.wait_for(self._hurries, self._gathering)
                cookies, self._cookies = self._cookies, []
                rests, self._rests = self._rests, []
                state, self._state = self._state, []
                offers, self._offers = self._offers, []
                done, self._done = self._done, []
                left, self._left = self._left, []
                marks, self._marks = self._marks, []
                asked, self._asked = self._asked, []
                not_begun, self._not_begun = self._not_begun, []
                again, self._again = self._again, set()
                offered = self.offered
                wanted, closing = self._wanted, self._closing
            wanted = 0 if self._reactor.is_lost else wanted
            self._patiently(self._keep_partitions)
            self._glance()
            if cookies:
                self._patiently(self._frontier.cookies.keep, cookies)
            if rests:
                self._patiently(self._frontier.rests.keep, rests)
            self._offer_and_settle(offers, done)
            self._leave_mark_and_ask(left, marks, asked, state)
            if closing:
                self._end(not_begun)
                return
            if not_begun:
                self._patiently(self._frontier.not_begun, not_begun)
            for slot in again:
                self._frontier.ask_again(slot)
            self._stop_if_asked(offered)
            leased = bool(wanted) and self._lease(wanted)
            if offers or done or asked or leased:
                pause, self._end_at = SHORTEST, 0.0
                continue
            if wanted and not self._over and time.monotonic() >= self._end_at:
                self._look_for_end(offered)
            pause = min(2 * pause, LOOK, self._tend_every)

    def _end(self, not_begun: list[RedisLease]) -> None:
        """Give everything back."""
        try:
            self._patiently(self._last)
            if self._named is not None:
                self._patiently(self._named.give_back)
        finally:
            self._patiently(self._frontier.close, not_begun, self._reason)

    def _has_calls(self) -> bool:
        """Whether there is a call of the reactor to carry out."""
        return bool(
            self._offers
            or self._state
            or self._done
            or self._left
            or self._asked
            or self._not_begun
            or self._closing
        )

    def _hurries(self) -> bool:
        """Whether the reactor waits for what the next calls bring."""
        return bool(self._wanted or self._asked or self._not_begun or self._closing)

    def _keep_partitions(self) -> None:
        """Renew the leases when it is time, and share with workers that have come."""
        begun = time.monotonic()
        tends = begun >= self._tend_at
        if not tends and begun < self._look_at:
            return
        if tends:
            self._reactor.beat()
        if not self._reactor.is_lost:
            share = self._frontier.tend if tends else self._frontier.look_around
            share()
            if tends and self._named is not None:
                self._named.renew()
            if self._frontier.returning:
                self._tell(self.crawl.give_back, self._frontier.returning)
            if self._frontier.rule.slot_parts and (news := self._frontier.rests.news()):
                self._tell(self.crawl.rests, news)
            if self._rules != self._frontier.rules:
                self._rules = self._frontier.rules
                self._tell(self.crawl.ruled, self._rules)
        self._look_at = begun + LOOK
        if tends:
            self._tend_at = begun + self._tend_every

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

    def _leave_mark_and_ask(
        self,
        left: list[LeftRequest],
        marks: list[SeenMark],
        asked: list[tuple[SeenMark, InMemory]],
        state: list[bytes | None],
    ) -> None:
        """Leave requests, mark requests, and look up which requests count as seen.

        And keep the ``state`` of this worker, if it brings one.
        """
        if state and self._named is not None:
            self._patiently(self._named.keep, *state)
        if left:
            self._patiently(self._frontier.leave, left)
        if marks:
            self._patiently(self._frontier.mark_seen, marks)
        if asked:
            known = self._patiently(self._frontier.knows, [mark for mark, _ in asked])
            who = (local for _, local in asked)
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
            news = self._patiently(self._frontier.cookies.news)
            if news:
                self._tell(self.crawl.cookies, news)
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

    def _tell(self, function: Callable[..., None], *arguments: object) -> None:
        self._post(function, *arguments)


def _is_link(offer: Offer) -> bool:
    """Whether a page has yielded this request, and it may be a duplicate."""
    return offer.of is not None and offer.known_as is not None


def _poster() -> Callable[..., Any]:
    """Return a function that runs another function on the thread of Scrapy."""
    if "twisted.internet.reactor" in sys.modules:
        from twisted.internet import reactor

        loop: Any = reactor
        return loop.callFromThread  # type: ignore[no-any-return]
    return asyncio.get_running_loop().call_soon_threadsafe
