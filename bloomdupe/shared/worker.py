"""Worker: the thread that talks to Redis, so that the reactor never waits for it."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from bloomdupe.errors import StoreAccessError, StoreFullError, StoreUnreachableError
from bloomdupe.redis.partition import Done
from bloomdupe.shared.heartbeat import Heartbeat
from bloomdupe.shared.names import ITEM, message_of, taken_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bloomdupe.redis.partition import Lease, Offer
    from bloomdupe.redis.shared_frontier import SharedFrontier

    Result = TypeVar("Result")

__all__ = ["Crawl", "Worker"]

logger = logging.getLogger(__name__)

SHORTEST, LONGEST = 0.02, 1.0
"""Seconds between two questions, while Redis has nothing for this worker."""
TENDING = 4
"""How often a lease is renewed before it would run out."""
PATIENCE = 5.0
"""Seconds in which Redis may answer when the crawl closes."""
TROUBLE = (StoreUnreachableError, StoreFullError, StoreAccessError)
"""What a server gets over: the crawl waits for it."""


class Crawl(Protocol):
    """What a worker tells; all of it is called on the thread of the reactor."""

    def handed_out(self, leases: Sequence[Lease]) -> None:
        """Take requests to work on."""

    def known(self, count: int) -> None:
        """Take note that so many of the offers were none that are new."""

    def cookies(self, news: Sequence[bytes]) -> None:
        """Take cookies that others have changed."""

    def give_back(self, partitions: frozenset[int]) -> None:
        """Begin with nothing more of partitions that other workers are to have."""

    def refused(self, leases: Sequence[Lease]) -> None:
        """Take note that others work on these, and that nothing of them counts."""

    def finished(self, offered: int) -> None:
        """Take note that nothing was owed anywhere after so many offers."""

    def interrupted(self) -> None:
        """Take note that Redis may have forgotten some of what it was offered."""

    def failed(self, error: BaseException) -> None:
        """Take note that nothing goes on."""


class Worker(Thread):
    """Offers, settles and leases in batches, and stays the owner of its partitions.

    What the reactor says is done in its order, offers before settlements: what a page
    leads to is in Redis when the page is settled. While Redis is away everything waits.
    """

    def __init__(
        self,
        frontier: SharedFrontier,
        lease_seconds: float,
        crawl: Crawl,
        *,
        cookies: bool,
    ) -> None:
        super().__init__(name="bloomdupe-redis", daemon=True)
        self._frontier = frontier
        self._tend_every = lease_seconds / TENDING
        self._tend_at = 0.0
        self._crawl = crawl
        self._with_cookies = cookies
        self._post = _poster()
        self._reactor = Heartbeat(self._post, self._tend_every, lease_seconds)
        self._changed = Condition()
        # What the reactor has said, and this thread has not taken:
        self._cookies: list[tuple[bytes, bytes]] = []
        self._offers: list[Offer] = []
        self._done: list[Done] = []
        self._not_begun: list[Lease] = []
        self._aside: list[tuple[Lease, str]] = []
        self._again: set[str] = set()
        self._wanted = 0
        self._closing: float | None = None
        self._interruptions = frontier.interruptions
        self.offered = 0
        """How many requests were ever offered."""
        self.held = 0
        """How many are handed out to this worker, and will never be settled by it."""

    # On the thread of the reactor

    def keep_cookies(self, changes: list[tuple[bytes, bytes]]) -> None:
        """Let others have cookies, before anything that is offered from now on."""
        with self._changed:
            self._cookies += changes

    def offer(self, offer: Offer) -> None:
        """Offer a request."""
        with self._changed:
            self._offers.append(offer)
            self.offered += 1
            self._changed.notify()

    def settle(self, done: Done) -> None:
        """Settle a request, when all that it leads to was offered."""
        with self._changed:
            self._done.append(done)
            self._changed.notify()

    def ask_again(self, slot: str) -> None:
        """Say that a slot may have its next turn."""
        with self._changed:
            self._again.add(slot)

    def not_begin(self, leases: Sequence[Lease]) -> None:
        """Say that requests that were handed out are for other workers to do."""
        with self._changed:
            self._not_begun += leases
            self._changed.notify()

    def set_aside(self, lease: Lease, reason: str) -> None:
        """Say why a request that was handed out cannot be restored."""
        with self._changed:
            self._aside.append((lease, reason))
            self._again.add(lease.slot)
            self.held += 1

    def want(self, count: int) -> None:
        """Say how many more requests are wanted now."""
        if count == self._wanted:
            return
        with self._changed:
            self._wanted = count
            self._changed.notify()

    def close(self) -> BaseException | None:
        """Say what is left to say, give everything back, and end."""
        with self._changed:
            self._closing = time.monotonic() + PATIENCE
            self._changed.notify()
        self.join()
        return self._error

    # On its own thread

    _error: BaseException | None = None

    def run(self) -> None:
        """Work until the crawl closes; called when the thread starts."""
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - the reactor is told
            self._error = error
            self._tell(self._crawl.failed, error)

    def _work(self) -> None:
        pause = SHORTEST
        while True:
            with self._changed:
                if not (self._offers or self._done or self._not_begun or self._closing):
                    self._changed.wait(pause)
                cookies, self._cookies = self._cookies, []
                offers, self._offers = self._offers, []
                done, self._done = self._done, []
                not_begun, self._not_begun = self._not_begun, []
                aside, self._aside = self._aside, []
                again, self._again = self._again, set()
                offered, held = self.offered, self.held
                wanted, closing = self._wanted, self._closing
            wanted = 0 if self._reactor.is_lost else wanted
            if time.monotonic() >= self._tend_at:
                self._patiently(self._tend)
            if cookies:
                self._patiently(self._frontier.cookies.keep, cookies)
            for lease, reason in aside:
                self._patiently(self._frontier.set_aside, lease, reason)
            self._say(offers, done, not_begun)
            for slot in again:
                self._frontier.ask_again(slot)
            if closing:
                self._patiently(self._frontier.close)
                return
            if offers or done or (wanted and self._lease(wanted)):
                pause = SHORTEST
                continue
            if wanted and self._patiently(self._frontier.finished_but, held):
                self._tell(self._crawl.finished, offered)
            pause = min(2 * pause, LONGEST)

    def _tend(self) -> None:
        begun = time.monotonic()
        self._reactor.beat()
        if not self._reactor.is_lost:
            self._frontier.tend()
            if self._frontier.leaving:
                self._tell(self._crawl.give_back, self._frontier.leaving)
        self._tend_at = begun + self._tend_every

    def _say(
        self, offers: list[Offer], done: list[Done], not_begun: Sequence[Lease] = ()
    ) -> None:
        """Offer, and then settle: everything that these lead to was offered."""
        if offers:
            new = self._patiently(self._frontier.offer, offers)
            if known := new.count(False):
                self._tell(self._crawl.known, known)
        if done:
            refused = self._patiently(self._frontier.settle, done)
            if refused:
                self._tell(self._crawl.refused, refused)
        if not_begun:
            self._patiently(self._frontier.not_begun, not_begun)

    def _lease(self, wanted: int) -> bool:
        """Hand out requests; whether there were any."""
        leases = self._patiently(self._frontier.lease, wanted)
        if not leases:
            return False
        requests = []
        for lease in leases:
            message = message_of(lease.payload)
            if message.kind == ITEM:
                self._say([], [Done(lease, taken_apart(message.body))])
                self._frontier.ask_again(lease.slot)
            else:
                requests.append(lease)
        with self._changed:
            self._wanted = max(0, self._wanted - len(requests))
        if requests and self._with_cookies:
            # After the lease: whoever has offered these had given his cookies before.
            news = self._patiently(self._frontier.cookies.news)
            if news:
                self._tell(self._crawl.cookies, news)
        if requests:
            self._tell(self._crawl.handed_out, requests)
        return True

    def _patiently(self, call: Callable[..., Result], *arguments: object) -> Result:
        """Call until Redis answers; what was asked may be asked again."""
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
                    # Before what it has answered: that may be a page to do again.
                    self._tell(self._crawl.interrupted)
                return result
            time.sleep(wait)
            wait = min(2 * wait, LONGEST)

    def _tell(self, function: Callable[..., None], *arguments: object) -> None:
        self._post(function, *arguments)


def _poster() -> Callable[..., Any]:
    """Return what calls a function on the thread that Scrapy runs on."""
    if "twisted.internet.reactor" in sys.modules:
        from twisted.internet import reactor

        loop: Any = reactor
        return loop.callFromThread  # type: ignore[no-any-return]
    return asyncio.get_running_loop().call_soon_threadsafe
