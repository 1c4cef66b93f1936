"""EngineAccess: reads and replaces private names of Scrapy's engine and downloader.

The module :mod:`bloomdupe.inside_scrapy.processing` does so, too. All these names are
in :mod:`bloomdupe.inside_scrapy.private_names`.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from pydispatch.dispatcher import (  # type: ignore[import-untyped]
    getAllReceivers,
    liveReceivers,
)
from scrapy import signals
from scrapy.core import downloader as downloader_module
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro

from bloomdupe.errors import BloomDupeError

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Callable,
        Generator,
        Iterable,
        Mapping,
    )

    from scrapy import Request
    from scrapy.crawler import Crawler


RECHECK = 0.05
"""Seconds until a slot is checked again that foreign requests keep busy."""
SOON = 0.005
"""Seconds until ``start()`` has gone on after a request, if it does not wait long."""
SLOW = 0.02
"""Seconds after which a request that has not reached the downloader is in a middleware
that takes its time: then it does not count as one that waits in the downloader."""
LONG = 1.0
"""Seconds until a slot is checked again without a call meanwhile."""


class EngineAccess:
    """Access to the engine of a running crawl, mostly to the downloader's slots."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        engine: Any = crawler.engine
        self._engine = engine
        self._downloader = engine.downloader
        self._slots = self._downloader.slots
        self._slot_settings = self._downloader.per_slot_settings
        self._delay = crawler.settings.getfloat("DOWNLOAD_DELAY")
        self._waking = Timer(self.wake)
        # The clock of Slot.lastseen.
        self._clock: Callable[[], float] = (
            time.monotonic if hasattr(downloader_module, "monotonic") else time.time
        )

    def watch_start(
        self, watch: Callable[[AsyncIterator[Any]], AsyncIterator[Any]]
    ) -> None:
        """Put ``watch`` between ``Spider.start()`` and the engine."""
        self._engine._start = watch(self._engine._start)

    async def start_again(self) -> AsyncIterator[Any]:
        """Call ``Spider.start()`` once more, and return its outputs."""
        middlewares = self._engine.scraper.spidermw
        outputs: AsyncIterator[Any] = await middlewares.process_start()
        return outputs

    def go_through(self, outputs: AsyncIterator[Any]) -> None:
        """Let the engine take in outputs of ``Spider.start()``, as it did at first."""
        engine = self._engine
        engine._start = _InTurn(outputs)

        async def process() -> None:
            while engine._start and engine.spider and engine.running:
                await engine._process_start_next()
                if not engine.needs_backout():
                    engine._slot.nextcall.schedule()
                    await engine._slot.nextcall.wait()

        self._again = asyncio.ensure_future(process())

    def slot_of(self, request: Request) -> str:
        """Return the name of the downloader's slot for a request."""
        return str(self._downloader.get_slot_key(request))

    def wait(self, name: str, in_flight: int, handed_out: float) -> float:
        """Return the seconds until the downloader can use another request in a slot.

        ``in_flight`` is the number of requests of this scheduler in the slot, also of
        those that have not reached it yet. The last was ``handed_out`` at that time, by
        :func:`time.monotonic`.
        """
        slot = self._slots.get(name)
        if slot is None:
            concurrency = self._concurrency_of(name)
            delay = self.delay_of(name)
            transferring = 0
        else:
            concurrency = slot.concurrency
            delay = slot.delay
            transferring = len(slot.transferring)
            if len(slot.active) > in_flight and len(slot.active) >= concurrency > 0:
                return RECHECK  # inline requests, robots.txt: their end is not reported
        on_the_way = in_flight - (0 if slot is None else len(slot.active))
        if on_the_way > 0:
            # With a delay, all of them would wait in the downloader later.
            bounded = delay > 0 and on_the_way >= concurrency > 0
            if not bounded and time.monotonic() >= handed_out + SLOW:
                in_flight -= on_the_way
        if in_flight >= concurrency > 0:
            return SLOW if on_the_way > 0 else LONG
        if delay <= 0:
            return 0.0
        if in_flight > transferring:
            # A request is there already, and will go when the delay is over.
            return SLOW if on_the_way > 0 else max(float(delay) * 0.5, RECHECK)
        if slot is None:
            return 0.0
        # The downloader draws the delay anew each time it looks; a request that
        # arrives before the least possible delay would only wait there.
        jitter = min(1.0, getattr(slot, "jitter", 0.5))  # 0.5 before Scrapy 2.19
        return float(slot.lastseen + delay * (1 - jitter) - self._clock())

    def delay_of(self, name: str) -> float:
        """Return the seconds between two requests to a slot, as Scrapy knows them."""
        slot = self._slots.get(name)
        if slot is not None:
            return float(slot.delay)
        given = self._slot_settings.get(name, {})
        return float(given.get("delay", self._delay))

    def last_request_of(self, name: str) -> float:
        """Return the Unix time of the last request of a slot.

        0 if the downloader does not know the slot, or has sent none.
        """
        slot = self._slots.get(name)
        if slot is None or not slot.lastseen:
            return 0.0
        return float(slot.lastseen - self._clock() + time.time())

    @property
    def has_delays(self) -> bool:
        """Whether any slot may have a delay between two requests."""
        given = (one.get("delay") for one in self._slot_settings.values())
        return self.throttled or self._delay > 0 or any(given)

    # Delays that AutoThrottle has set

    @property
    def throttled(self) -> bool:
        """Whether AutoThrottle changes the delays of slots."""
        return bool(self._crawler.settings.getbool("AUTOTHROTTLE_ENABLED"))

    def delays(self) -> dict[str, float]:
        """Return the delay of each slot in use, in seconds."""
        return {name: slot.delay for name, slot in self._slots.items()}

    def restore_delays(self, delay_of: Callable[[str], float | None]) -> None:
        """Let new slots begin with the delays that ``delay_of`` returns."""
        settings = _WithDelays(self._slot_settings, delay_of)
        self._slot_settings = self._downloader.per_slot_settings = settings

    def _concurrency_of(self, name: str) -> int:
        downloader = self._downloader
        # Deprecated since Scrapy 2.19.
        by_ip = getattr(downloader, "ip_concurrency", 0)
        every = by_ip or downloader.domain_concurrency
        given: int = self._slot_settings.get(name, {}).get("concurrency", every)
        return given

    @property
    def is_closing(self) -> bool:
        """Whether the spider is being closed: no request is handed out any more."""
        slot = self._engine._slot
        return slot is not None and slot.closing is not None

    def wake(self) -> None:
        """Let the engine ask for the next request soon."""
        slot = self._engine._slot
        if slot is not None:
            slot.nextcall.schedule()

    def wake_start(self) -> None:
        """Let the engine ask once more when ``start()`` has gone on.

        It asks before that, and sends ``scheduler_empty`` if nothing is pending, for
        which a lazy ``start()`` waits.
        """
        self._waking.set(SOON)


class _InTurn:
    """Outputs that several loops ask for, each in its turn.

    A loop that has come to the end of other outputs may not have noticed that yet.
    """

    def __init__(self, outputs: AsyncIterator[Any]) -> None:
        self._outputs = outputs
        self._lock = asyncio.Lock()

    async def __anext__(self) -> Any:
        async with self._lock:
            return await anext(self._outputs)


class _WithDelays(dict[str, dict[str, Any]]):
    """Settings of slots; the delay is looked up when a slot is made."""

    def __init__(
        self,
        given: Mapping[str, dict[str, Any]],
        delay_of: Callable[[str], float | None],
    ) -> None:
        super().__init__(given)
        self._delay_of = delay_of

    def get(self, name: str, default: Any = None) -> Any:
        """Return the settings of a slot; called by the downloader."""
        given = super().get(name, default)
        delay = self._delay_of(name)
        return given if delay is None else {**(given or {}), "delay": delay}


def spider_middlewares(crawler: Crawler) -> tuple[Any, ...]:
    """Return the spider middlewares of a running crawl, the engine's side first."""
    engine: Any = crawler.engine
    return tuple(engine.scraper.spidermw.middlewares)


def item_pipelines(crawler: Crawler) -> tuple[Any, ...]:
    """Return the item pipelines of a running crawl, in their order.

    Returns an empty tuple if the project has an ``ITEM_PROCESSOR`` of its own.
    """
    engine: Any = crawler.engine
    return tuple(getattr(engine.scraper.itemproc, "middlewares", ()))


def listeners(crawler: Crawler, signal: object) -> list[Any]:
    """Return the functions that a crawl's signal calls at present."""
    return list(liveReceivers(getAllReceivers(crawler.signals.sender, signal)))


def offsite_of(receiver: Any) -> OffsiteMiddleware | None:
    """Return Scrapy's filter of offsite links, or a subclass, if it listens there."""
    offsite = getattr(receiver, "__self__", None)
    is_plain = (
        isinstance(offsite, OffsiteMiddleware)
        and receiver.__func__ is OffsiteMiddleware.request_scheduled
        and type(offsite).process_request is OffsiteMiddleware.process_request
    )
    return offsite if is_plain else None


def all_pass(
    filters: Iterable[OffsiteMiddleware], request: Request, crawler: Crawler
) -> bool:
    """Whether a request is on the site, for all these filters of offsite links."""
    spider: Any = crawler.spider
    any_domain = not getattr(spider, "allowed_domains", None)
    return all(
        (any_domain and type(one) is OffsiteMiddleware)
        or one.should_follow(request, spider)
        for one in filters
    )


def stop_crawl(crawler: Crawler, reason: str) -> None:
    """Close the spider of a running crawl, soon."""
    engine: Any = crawler.engine
    deferred_from_coro(engine.close_spider_async(reason=reason))


def mark_failed(crawler: Crawler, ended: object = signals.engine_stopped) -> None:
    """Let the process end with status 1 when the crawl has ended.

    ``scrapy crawl`` exits with status 1 if the crawler has no spider at that moment.
    """
    crawler.signals.connect(lambda: setattr(crawler, "spider", None), ended, weak=False)


@contextmanager
def opening(crawler: Crawler) -> Generator[None, None, None]:
    """Let the process end with status 1 if the crawl cannot be opened.

    Before Scrapy 2.19, a crawler that has its spider counts as started. An engine that
    has its spider closes it, although much of it was never opened: of each such part
    Scrapy would show a traceback.
    """
    try:
        yield
    except BloomDupeError:
        with suppress(RuntimeError):  # no engine: it was opened by hand
            crawler.engine.spider = None
        crawler.spider = None
        raise
    except BaseException:
        mark_failed(crawler, signals.spider_closed)
        raise


def fail_crawl(crawler: Crawler, reason: str) -> None:
    """Close the spider of a running crawl, soon; the process ends with status 1."""
    engine: Any = crawler.engine
    # An engine that has not started yet does not tell that it has stopped.
    mark_failed(
        crawler, signals.engine_stopped if engine.running else signals.spider_closed
    )
    stop_crawl(crawler, reason)


@contextmanager
def on_signal(call: Callable[[], None]) -> Generator[None, None, None]:
    """Call a function when the process is asked to stop, and then Scrapy's handler.

    Scrapy's handlers need the event loop, which the code within may block.
    """
    before: dict[Any, Any] = {}

    def handle(number: int, frame: Any) -> None:
        call()
        if callable(before[number]):
            before[number](number, frame)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is handle:
                signal.signal(number, handler)


class Timer:
    """Calls a function once, later, in the event loop of Scrapy."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._call: Any = None

    @property
    def is_set(self) -> bool:
        """Whether there is an appointment."""
        return self._call is not None

    def set(self, seconds: float) -> None:
        """Call the function in so many seconds, and drop an earlier appointment."""
        self.cancel()
        self._call = call_later(seconds, self._run)

    def cancel(self) -> None:
        """Drop the appointment."""
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _run(self) -> None:
        self._call = None
        self._function()
