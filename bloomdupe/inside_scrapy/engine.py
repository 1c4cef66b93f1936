"""EngineAccess: reads and replaces private names of Scrapy's engine and downloader.

The module :mod:`bloomdupe.inside_scrapy.processing` does so, too. :func:`check_engine`
looks for all these names when a crawl opens, before any of them is used. Tested with
Scrapy 2.16 to 2.19.
"""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pydispatch.dispatcher import (  # type: ignore[import-untyped]
    getAllReceivers,
    liveReceivers,
)
from scrapy import __version__, signals
from scrapy.core import downloader as downloader_module

from bloomdupe.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Callable,
        Generator,
        Iterator,
        Mapping,
    )

    from scrapy import Request
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

GLANCE = 0.05
"""Seconds until the next look at a slot that foreign requests keep busy."""
LONG = 1.0
"""Seconds until the next look at a slot without a call meanwhile."""


class EngineAccess:
    """Access to the engine of a running crawl, mostly to the downloader's slots."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        engine: Any = crawler.engine
        check_engine(engine)
        self._engine = engine
        self._downloader = engine.downloader
        self._slots = self._downloader.slots
        self._slot_settings = self._downloader.per_slot_settings
        # The clock of Slot.lastseen.
        self._clock: Callable[[], float] = (
            time.monotonic if hasattr(downloader_module, "monotonic") else time.time
        )

    def watch_start(
        self, watch: Callable[[AsyncIterator[Any]], AsyncIterator[Any]]
    ) -> None:
        """Put ``watch`` between ``Spider.start()`` and the engine."""
        self._engine._start = watch(self._engine._start)

    def slot_of(self, request: Request) -> str:
        """Return the name of the downloader's slot for a request."""
        return str(self._downloader.get_slot_key(request))

    def wait(self, name: str, in_progress: int) -> float:
        """Return the seconds until the downloader can use another request in a slot.

        ``in_progress`` is the number of requests of this scheduler in the slot, also of
        those that have not reached it yet.
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
            if len(slot.active) > in_progress and len(slot.active) >= concurrency > 0:
                return GLANCE  # inline requests, robots.txt: their end is not reported
        if in_progress >= concurrency > 0:
            return LONG
        if delay <= 0:
            return 0.0
        if in_progress > transferring:
            # A request is there already, and will go when the delay is over.
            return max(float(delay) * 0.5, GLANCE)
        if slot is None:
            return 0.0
        # The downloader draws the delay anew each time it looks; a request that
        # arrives before the least possible delay would only wait there.
        return float(slot.lastseen + delay * (1 - _jitter(slot)) - self._clock())

    def delay_of(self, name: str) -> float:
        """Return the seconds between two requests to a slot, as Scrapy knows them."""
        slot = self._slots.get(name)
        if slot is not None:
            return float(slot.delay)
        given = self._slot_settings.get(name, {})
        return float(given.get("delay", self._delay))

    def last_request_of(self, name: str) -> float:
        """Return when the last request of a slot was sent, in ``time.monotonic()``.

        Minus infinity if the downloader does not know the slot, or has sent none.
        """
        slot = self._slots.get(name)
        if slot is None or not slot.lastseen:
            return -math.inf
        return float(slot.lastseen - self._clock() + time.monotonic())

    def is_full(self, name: str) -> bool:
        """Whether a slot has as many requests in progress as it may have."""
        slot = self._slots.get(name)
        return slot is not None and len(slot.active) >= slot.concurrency > 0

    @property
    def given_delays(self) -> dict[str, float]:
        """Seconds between two requests as configured: by slot; "" is any other slot."""
        given = {
            name: float(values["delay"])
            for name, values in self._slot_settings.items()
            if "delay" in values
        }
        return {"": self._delay, **given}

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


class _WithDelays(dict[str, dict[str, Any]]):
    """Settings of slots; the delay is looked up when a slot is made."""

    def __init__(
        self,
        given: Mapping[str, dict[str, Any]],
        delay_of: Callable[[str], float | None],
    ) -> None:
        super().__init__(given)
        self._delay_of = delay_of

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401
        """Return the settings of a slot; called by the downloader."""
        given = super().get(name, default)
        delay = self._delay_of(name)
        return given if delay is None else {**(given or {}), "delay": delay}


def check_engine(engine: Any) -> None:  # noqa: ANN401
    """Check that Scrapy has every private name that this package reads or replaces.

    Raises :class:`~bloomdupe.errors.EngineError`, which tells the missing name.
    """
    for path in missing_names(engine):
        raise _missing(path)


def _missing(path: str) -> EngineError:
    return EngineError(
        f"Scrapy {__version__} has no {path} as Scrapy 2.16 to 2.19 have: install"
        " the Scrapy that this job was last run with, or a newer bloomdupe"
    )


def missing_names(engine: Any) -> Iterator[str]:  # noqa: ANN401
    """Find the private names that this Scrapy does not have.

    Those of an open engine are looked for if the engine is open.
    """
    names = _NAMES
    if getattr(engine, "_slot", None) is not None:
        names += _NAMES_WHEN_OPEN
    for path, kind in names:
        found: Any = engine
        for name in path.split("."):
            found = getattr(found, name, None)
        if not (callable(found) if kind is None else isinstance(found, kind)):
            yield f"engine.{path}"
    for name in ("_slot", "_start"):
        if not hasattr(engine, name):
            yield f"engine.{name}"
    slot = downloader_module.Slot(1, 0.0, 0.0)
    for name in _NAMES_OF_SLOT:
        if not hasattr(slot, name):
            yield f"downloader.Slot.{name}"


_NAMES: tuple[tuple[str, type | tuple[type, ...] | None], ...] = (
    ("_handle_downloader_output", None),
    ("crawl", None),
    ("downloader.slots", dict),
    ("downloader.per_slot_settings", dict),
    ("downloader.get_slot_key", None),
    ("downloader.domain_concurrency", int),
    ("scraper.concurrent_items", int),
    ("scraper.call_spider_async", None),
    ("scraper.handle_spider_error", None),
    ("scraper.handle_spider_output_async", None),
    ("scraper.start_itemproc_async", None),
    ("scraper.spidermw.middlewares", (list, tuple)),
)
"""Required names and their types; None for a callable."""
_NAMES_WHEN_OPEN = (("_slot.nextcall.schedule", None), ("_start.__aiter__", None))
_NAMES_OF_SLOT = ("active", "concurrency", "delay", "lastseen", "transferring")


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


def stop_crawl(crawler: Crawler, reason: str) -> None:
    """Close the spider of a running crawl, soon."""
    engine: Any = crawler.engine
    _run(engine.close_spider_async(reason=reason))


def send_signal(crawler: Crawler, signal: object, **arguments: object) -> Deferred[Any]:
    """Send a signal; its receivers may be coroutines."""
    return _run(crawler.signals.send_catch_log_async(signal, **arguments))


def mark_failed(crawler: Crawler, ended: object = signals.engine_stopped) -> None:
    """Let the process end with status 1 when the crawl has ended.

    ``scrapy crawl`` exits with status 1 if the crawler has no spider at that moment.
    """
    crawler.signals.connect(lambda: setattr(crawler, "spider", None), ended, weak=False)


@contextmanager
def opening(crawler: Crawler | None) -> Generator[None, None, None]:
    """Let the process end with status 1 if the crawl cannot be opened.

    Before Scrapy 2.19, a crawler that has its spider counts as started.
    The engine closes the spider then, although it has never started itself.
    """
    try:
        yield
    except BaseException:
        if crawler is not None:
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


def _jitter(slot: Any) -> float:  # noqa: ANN401 - its class moved between versions
    jitter = getattr(slot, "jitter", None)
    if jitter is None:
        return 0.5 if slot.randomize_delay else 0.0
    return min(1.0, float(jitter))


def _run(coroutine: Any) -> Deferred[Any]:  # noqa: ANN401
    from scrapy.utils.defer import deferred_from_coro

    return deferred_from_coro(coroutine)
