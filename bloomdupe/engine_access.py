"""EngineAccess: everything that we know about the inside of Scrapy's engine.

Scrapy has no public signal for "this request is done, its callback, its items and
all". It is done when it has left the engine's set of requests in progress; that,
and the state of the downloader's slots, is read here and nowhere else. Whether
Scrapy still has what we read is checked at the start of each crawl. Tested with
Scrapy 2.13 to 2.19.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pydispatch.dispatcher import (  # type: ignore[import-untyped]
    getAllReceivers,
    liveReceivers,
)
from scrapy import Request, __version__, signals
from scrapy.core import downloader as downloader_module
from twisted.python.failure import Failure

from bloomdupe.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Set

    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

__all__ = [
    "EngineAccess",
    "Timer",
    "fail_crawl",
    "listeners",
    "send_signal",
    "spider_middlewares",
    "stop_crawl",
]

GLANCE = 0.05
"""Seconds after which to look again at a slot that others than us keep busy."""
LONG = 1.0
"""Seconds after which to look at a slot again though nobody has called."""


class EngineAccess:
    """Looks into the engine of a running crawl."""

    def __init__(self, crawler: Crawler) -> None:
        engine: Any = crawler.engine
        self._crawler = crawler
        self._engine = engine
        self._downloader = engine.downloader
        self._slots = self._downloader.slots
        self._slot_settings = self._downloader.per_slot_settings
        # The clock of Slot.lastseen.
        self._clock: Callable[[], float] = (
            time.monotonic if hasattr(downloader_module, "monotonic") else time.time
        )
        self.start_request: Request | None = None
        """What Spider.start() yielded last."""
        self.parent: Request | None = None
        """Whose callback or errback has yielded the request that is being scheduled;
        None if nobody's, or nobody knows."""
        self._start_items = 0
        self._held: dict[str, float] = {}

    def attach(self) -> None:
        """Check that the engine is as we know it, and watch what start() yields.

        Raises :class:`~bloomdupe.errors.EngineError` if it is not.
        """
        slot = getattr(self._engine, "_slot", None)
        for what, there in (
            (
                "engine._slot.inprogress",
                isinstance(getattr(slot, "inprogress", 0), set),
            ),
            ("engine._slot.nextcall", hasattr(slot, "nextcall")),
            ("engine._start", hasattr(getattr(self._engine, "_start", 0), "__aiter__")),
            ("downloader.active", isinstance(self._downloader.active, set)),
            (
                "scraper.enqueue_scrape",
                hasattr(self._engine.scraper, "enqueue_scrape"),
            ),
        ):
            if not there:
                raise EngineError(
                    f"Scrapy {__version__} has no {what} as Scrapy 2.13 to 2.19 have:"
                    " bloomdupe.FrontierScheduler cannot tell what is done. Set"
                    ' SCHEDULER = "scrapy.core.scheduler.Scheduler", or use a version'
                    " of bloomdupe made for this Scrapy"
                )
        self._engine._start = self._watch(self._engine._start)

    async def _watch(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for output in start:
            if self._start_items and not isinstance(output, Request):
                self._start_items -= 1
                continue
            self.start_request = output
            yield output

    def skip_start_items(self, count: int) -> None:
        """Drop the first items that Spider.start() yields: an earlier run had them."""
        self._start_items = count

    def watch_failures(self, tell: Callable[[BaseException], None]) -> None:
        """Have ``tell`` called with what a download raised, before any errback is."""
        scraper = self._engine.scraper
        enqueue = scraper.enqueue_scrape

        def watched(result: Any, *others: Any) -> Any:  # noqa: ANN401
            if isinstance(result, Failure) and result.value is not None:
                tell(result.value)
            return enqueue(result, *others)

        scraper.enqueue_scrape = watched

    def watch_outputs(self) -> None:
        """Keep ``parent`` true, with Scrapy 2.14 or later."""
        scraper = self._engine.scraper
        process = getattr(scraper, "_process_spidermw_output_async", None)
        if process is None:
            return

        async def watched(output: Any, response: Any) -> None:  # noqa: ANN401
            # A request is scheduled at once; an item takes its time.
            if isinstance(output, Request):
                self.parent = getattr(response, "request", None)
            try:
                await process(output, response)
            finally:
                self.parent = None

        scraper._process_spidermw_output_async = watched

    @property
    def in_progress(self) -> Set[Request]:
        """Requests between leaving the scheduler and being done."""
        slot = self._engine._slot
        return frozenset() if slot is None else slot.inprogress

    @property
    def in_downloader(self) -> Set[Request]:
        """Requests in the downloader or its middlewares."""
        return self._downloader.active  # type: ignore[no-any-return]

    def slot_of(self, request: Request) -> str:
        """Return the name of the downloader's slot for a request."""
        return str(self._downloader.get_slot_key(request))

    def wait(self, name: str, under_way: int) -> float:
        """Seconds until the downloader can use another request in a slot.

        ``under_way`` is the number of ours in it, those included that have not
        reached it yet.
        """
        if self._held:
            held = self._held_for(name)
            if held > 0:
                return held
        slot = self._slots.get(name)
        if slot is None:
            given = self._slot_settings.get(name, {})
            concurrency = given.get("concurrency", self._concurrency)
            delay = given.get("delay", self._delay)
            transferring = 0
            earliest = 0.0
        else:
            concurrency = slot.concurrency
            delay = slot.delay
            transferring = len(slot.transferring)
            if len(slot.active) > under_way and len(slot.active) >= concurrency > 0:
                return GLANCE  # inline requests, robots.txt: nobody tells us
            # The downloader draws the delay anew each time it looks; before the
            # least possible one there is no use in having a request there.
            earliest = slot.lastseen + delay * (1 - _jitter(slot)) - self._clock()
        if under_way >= concurrency > 0:
            return LONG
        if delay <= 0:
            return 0.0
        if under_way > transferring:
            # One is there already, and will go when the delay is over.
            return max(float(delay) * 0.5, GLANCE)
        return float(earliest)

    # Delays that have come about

    def delays(self) -> dict[str, float]:
        """Return the delay of each slot in use, in seconds, if AutoThrottle is on."""
        if not self._crawler.settings.getbool("AUTOTHROTTLE_ENABLED"):
            return {}
        return {name: slot.delay for name, slot in self._slots.items()}

    def restore_delays(self, delays: dict[str, float]) -> None:
        """Let slots begin with these delays, if AutoThrottle is on."""
        if not self._crawler.settings.getbool("AUTOTHROTTLE_ENABLED"):
            return
        for name, delay in delays.items():
            given = self._slot_settings.get(name, {})
            self._slot_settings[name] = {**given, "delay": delay}

    def hold(self, name: str, until: float) -> None:
        """Let a slot rest until a point in Unix time."""
        self._held[name] = max(until, self._held.get(name, 0.0))

    def _held_for(self, name: str) -> float:
        seconds = self._held.get(name, 0.0) - time.time()
        if seconds <= 0:
            self._held.pop(name, None)
        return seconds

    def holds(self) -> dict[str, float]:
        """Return until when slots rest, in Unix time."""
        now = time.time()
        self._held = {name: t for name, t in self._held.items() if t > now}
        return self._held

    def restore_holds(self, holds: dict[str, float]) -> None:
        """Let slots rest as :meth:`holds` has said."""
        self._held = dict(holds)

    @property
    def _concurrency(self) -> int:
        downloader = self._downloader
        return downloader.ip_concurrency or downloader.domain_concurrency  # type: ignore[no-any-return]

    @property
    def _delay(self) -> float:
        delay = getattr(self._downloader, "_delay", None)
        if delay is None:
            delay = self._downloader.settings.getfloat("DOWNLOAD_DELAY")
        return float(delay)

    def wake(self) -> None:
        """Let the engine ask for the next request soon."""
        slot = self._engine._slot
        if slot is not None:
            slot.nextcall.schedule()

    def stop(self, reason: str) -> None:
        """Close the spider."""
        stop_crawl(self._crawler, reason)

    def fail(self, reason: str) -> None:
        """Close the spider, and let the process end with exit status 1."""
        fail_crawl(self._crawler, reason)


def spider_middlewares(crawler: Crawler) -> tuple[Any, ...]:
    """Return the spider middlewares of a running crawl, the engine's side first."""
    engine: Any = crawler.engine
    return tuple(engine.scraper.spidermw.middlewares)


def listeners(crawler: Crawler, signal: object) -> list[Any]:
    """Return the functions that a crawl's signal calls at present."""
    return list(liveReceivers(getAllReceivers(crawler.signals.sender, signal)))


def stop_crawl(crawler: Crawler, reason: str) -> None:
    """Close the spider of a running crawl, soon."""
    engine: Any = crawler.engine
    close = getattr(engine, "close_spider_async", None)
    if close is None:  # before Scrapy 2.14
        engine.close_spider(engine.spider, reason)
    else:
        _run(close(reason=reason))


def send_signal(crawler: Crawler, signal: object, **arguments: object) -> Deferred[Any]:
    """Send a signal whose receivers may be coroutines."""
    send = getattr(crawler.signals, "send_catch_log_async", None)
    if send is None:  # before Scrapy 2.14
        return crawler.signals.send_catch_log_deferred(signal, **arguments)
    return _run(send(signal, **arguments))


def fail_crawl(crawler: Crawler, reason: str) -> None:
    """Close the spider of a running crawl, soon; the process ends with status 1.

    ``scrapy crawl`` does so if a crawler has no spider when all is over.
    """
    crawler.signals.connect(
        lambda: setattr(crawler, "spider", None), signals.engine_stopped, weak=False
    )
    stop_crawl(crawler, reason)


def _jitter(slot: Any) -> float:  # noqa: ANN401 - its class moved between versions
    jitter = getattr(slot, "jitter", None)
    if jitter is None:
        return 0.5 if slot.randomize_delay else 0.0
    return min(1.0, float(jitter))


def _run(coroutine: Any) -> Deferred[Any]:  # noqa: ANN401
    from scrapy.utils.defer import deferred_from_coro

    return deferred_from_coro(coroutine)


class Timer:
    """Calls a function once, later, on the loop that Scrapy runs on."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._call: Any = None
        self.due: float | None = None

    def set(self, seconds: float) -> None:
        """Call in so many seconds, and not when it was to be called before."""
        self.cancel()
        self.due = time.monotonic() + seconds
        self._call = _call_later(seconds, self._run)

    def cancel(self) -> None:
        """Do not call."""
        if self._call is not None:
            self._call.cancel()
            self._call = self.due = None

    def _run(self) -> None:
        self._call = self.due = None
        self._function()


def _call_later(seconds: float, function: Callable[[], None]) -> Any:  # noqa: ANN401
    try:
        from scrapy.utils.asyncio import call_later
    except ImportError:  # before Scrapy 2.14
        from twisted.internet import reactor

        loop: Any = reactor
        return loop.callLater(seconds, function)
    return call_later(seconds, function)
