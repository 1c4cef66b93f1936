"""Processing: follows a result from the downloader's answer to its end.

Scrapy has no public signal for "this request is done: its callback, its items, their
pipelines and exports". Its engine and scraper know, so their methods are replaced here
by methods that report it. The state is never polled. It is never derived from
``response.request`` either, because that may differ from the request that was
scheduled.

One of these methods is also made faster. Scrapy (2.16 to 2.19) starts
``CONCURRENT_ITEMS`` tasks for every response, regardless of its output: half of a
crawl's CPU time. Here requests are scheduled at once, and only an item starts a task,
up to the same limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from contextvars import ContextVar
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from scrapy import Request, signals
from scrapy.exceptions import CloseSpider
from twisted.python.failure import Failure

from bloomdupe.inside_scrapy.private_names import aiter_errback, as_async_generator

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.internet.defer import Deferred


OF_CONNECTIONS = (signals.headers_received, signals.bytes_received)
"""Signals that are sent when data arrive from a server."""
OUTPUTS_A_TURN = 100
"""Outputs of a callback after which other tasks get a turn."""
LONGEST_WAIT = 0.25
"""Seconds for which a callback waits until a commit has its request, at most: the
commit may wait for other pages, and they for this one."""
PAUSE = 0.001
"""Seconds until it is checked again whether there is still backpressure."""


CURRENT: ContextVar[Work | None] = ContextVar("bloomdupe_work", default=None)
"""The work of the running code; None if it is unknown. A task inherits it from the code
that starts it."""


class Processing:
    """Watches engine and scraper of a running crawl.

    ``work_of`` finds the work of a request of the scheduler. While ``backpressure`` is
    true, callbacks wait before their next output; while ``held`` is, they wait before
    they begin, unless a page waits for them. Scrapy says that the scheduler is empty
    only while ``is_empty`` is true: a request that is pending may have to wait.
    """

    def __init__(
        self,
        crawler: Crawler,
        work_of: Callable[[Request], Work | None],
        *,
        backpressure: Callable[[], bool],
        held: Callable[[], bool],
        is_empty: Callable[[], bool],
    ) -> None:
        engine: Any = crawler.engine
        self._engine = engine
        self._scraper = engine.scraper
        self._signals = crawler.signals
        self._work_of = work_of
        self._backpressure = backpressure
        self._held = held
        self._is_empty = is_empty
        self._begun: set[Work] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        """Tasks in which callbacks and pipelines run."""
        self._is_cut_off = False
        self.answering: Work | None = None
        """The work that the downloader has just answered with a request (a retry, a
        redirect), while that request is being scheduled."""

    def attach(self) -> None:
        """Replace Scrapy's methods."""
        engine, scraper = self._engine, self._scraper
        self._handle_result = engine._handle_downloader_output
        engine._handle_downloader_output = self._result
        self._call_spider = scraper.call_spider_async
        scraper.call_spider_async = self._call
        self._handle_error = scraper.handle_spider_error
        scraper.handle_spider_error = self._error
        self._start_itemproc = scraper.start_itemproc_async
        scraper.start_itemproc_async = self._process_item
        scraper.handle_spider_output_async = self._hand_on
        self._download = engine.download_async
        engine.download_async = self._shielded_download
        self._send_signal = self._signals.send_catch_log
        self._signals.send_catch_log = self._signal  # type: ignore[method-assign]

    # In: the downloader's answers

    def _result(self, result: Any, request: Request) -> Deferred[None]:
        """Replacement of ``ExecutionEngine._handle_downloader_output()``."""
        work = self._work_of(request)
        if work is None:
            return self._handle_result(result, request)  # type: ignore[no-any-return]
        work.answered(result)
        token = CURRENT.set(work)
        if isinstance(result, Request):
            self.answering = work
        try:
            # If the result is a request, scheduling it is over when the call returns.
            deferred: Deferred[None] = self._handle_result(result, request)
        finally:
            self.answering = None
            CURRENT.reset(token)

        def ended(outcome: Any) -> Any:
            self._begun.discard(work)
            if isinstance(outcome, Failure) and outcome.value is not None:
                work.aborted(outcome.value)
            work.ended()
            return outcome

        return deferred.addBoth(ended)

    async def _call(self, result: object, request: Request) -> Any:
        """Replacement of ``Scraper.call_spider_async()``.

        It gets a failure if the download has failed, or if a spider middleware has
        refused the response.
        """
        work = self._work_of(request)
        if work is None:
            return await self._call_spider(result, request)
        if isinstance(result, Failure) and result.value:
            work.gave_up(result.value)
        task: Any = None
        try:
            task, end = self._begin_task(), monotonic() + LONGEST_WAIT
            while not (work.is_part or work.is_dropped) and (
                self._held() or (work.waits_for_commit and monotonic() < end)
            ):
                await asyncio.sleep(PAUSE)
            if work.is_dropped:
                return ()
            self._begun.add(work)
            return await self._call_spider(result, request)
        except asyncio.CancelledError as error:  # Scrapy would wait for ever
            work.aborted(error)
            return ()
        finally:
            self._tasks.discard(task)

    def _begin_task(self) -> Any:
        """Return the running task: :meth:`cut_off` ends it as long as it is known."""
        # A hot path: a context manager would take several times as long.
        if self._is_cut_off:
            raise asyncio.CancelledError
        task: Any = asyncio.current_task()
        self._tasks.add(task)
        return task

    def cut_off(self) -> None:
        """End all callbacks and pipelines that wait, and let none begin.

        They may wait for a request that is not handed out any more.
        """
        self._is_cut_off = True
        for task in [*self._tasks]:
            task.cancel()

    async def _shielded_download(self, request: Request) -> Any:
        """Replacement of ``ExecutionEngine.download_async()``.

        The download goes on if its caller is cut off: Scrapy does not close before a
        download has ended, and one that is cancelled never does.
        """
        return await asyncio.shield(self._download(request))

    @property
    def busy(self) -> bool:
        """Whether callbacks have begun that are not through with their pipelines."""
        return bool(self._begun)

    # Out: the output of callbacks

    def _error(self, failure: Failure, request: Request, response: object) -> None:
        """Replacement of ``Scraper.handle_spider_error()``."""
        work = self._work_of(request)
        if work is not None and failure.value is not None:
            closes = isinstance(failure.value, CloseSpider)
            note = work.closed_spider if closes else work.raised
            note(failure.value, response)
        self._handle_error(failure, request, response)

    async def _hand_on(
        self,
        result: Iterable[Any] | AsyncIterator[Any],
        request: Request,
        response: object,
    ) -> None:
        """Faster replacement of ``Scraper.handle_spider_output_async()``."""
        work = self._work_of(request)
        CURRENT.set(work)  # of this task only
        if not isinstance(result, AsyncIterator):  # it is that of an errback
            result = as_async_generator(result)
        failed = self._scraper.handle_spider_error
        outputs = aiter_errback(result, failed, request, response)
        task: Any = None
        try:
            task = self._begin_task()
            await self._hand_on_each(outputs, response, work)
        except BaseException as error:  # of any kind: the page is not done
            if work is not None:
                work.aborted(error)
            # After a cancellation Scrapy would wait for ever.
            if not isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self._tasks.discard(task)

    async def _hand_on_each(
        self, outputs: AsyncGenerator[Any], response: object, work: Work | None
    ) -> None:
        take, backpressure = self._take_output, self._backpressure
        most, left = self._scraper.concurrent_items, OUTPUTS_A_TURN
        items: set[asyncio.Future[None]] = set()
        failure: BaseException | None = None

        def ended(item: asyncio.Future[None]) -> None:
            nonlocal failure
            items.discard(item)
            if not item.cancelled():
                failure = failure or item.exception()

        async with aclosing(outputs):
            async for output in outputs:
                if (coroutine := take(output, response, work)) is not None:
                    while len(items) >= most:
                        await asyncio.wait(items, return_when=asyncio.FIRST_COMPLETED)
                    item = asyncio.ensure_future(coroutine)
                    items.add(item)
                    item.add_done_callback(ended)
                left -= 1
                if not left or backpressure():
                    left = OUTPUTS_A_TURN
                    await self._wait_turn()
        while items:
            await asyncio.wait(items)
        if failure is not None:
            raise failure

    async def _wait_turn(self) -> None:
        """Give other tasks a turn, and wait as long as there is backpressure."""
        await asyncio.sleep(0)
        while self._backpressure():
            await asyncio.sleep(PAUSE)

    def _take_output(self, output: object, response: object, work: Work | None) -> Any:
        """Schedule a request; for an item, return the coroutine of its pipelines."""
        if isinstance(output, Request):
            self._engine.crawl(output)
            return None
        if output is None:
            return None
        if work is not None:
            work.takes_item()
        return self._scraper.start_itemproc_async(output, response=response)

    async def _process_item(
        self,
        item: object,
        *,
        response: Response | Failure | None,
    ) -> None:
        """Replacement of ``Scraper.start_itemproc_async()``."""
        task: Any = None
        work = CURRENT.get() if response is None else None
        try:
            task = self._begin_task()
            await self._start_itemproc(item, response=response)
            if work is not None and work.is_start_item:
                work.ended()
        finally:
            self._tasks.discard(task)
            if response is None or self._is_cut_off:
                self._close_if_idle()

    def _close_if_idle(self) -> None:
        """Close the crawl after an item, if it waits only for that.

        Scrapy checks this only at the end of a response. So if no response is in
        progress when a crawl is to close, it would wait for an item of ``start()`` for
        ever; and after a failure for any other item, whose page has been cut off.
        """
        slot = self._scraper.slot
        closing = slot and slot.closing
        if closing and not closing.called and slot.is_idle():
            closing.callback(None)

    # Other code

    def _signal(self, signal: object, **named: Any) -> Any:
        """Replacement of ``SignalManager.send_catch_log()``.

        While data arrive, the running code is that of a connection. A receiver then
        works for the request that the signal carries.
        """
        if signal is signals.scheduler_empty and not self._is_empty():
            return []
        if signal not in OF_CONNECTIONS:
            return self._send_signal(signal, **named)
        token = CURRENT.set(self._work_of(named["request"]))
        try:
            return self._send_signal(signal, **named)
        finally:
            CURRENT.reset(token)


class Work(Protocol):
    """A request handed to the engine, as the owner of the work on it."""

    @property
    def is_dropped(self) -> bool:
        """Whether nothing of it counts any more, so that it need not begin."""

    @property
    def is_part(self) -> bool:
        """Whether another request is not done before it."""

    @property
    def waits_for_commit(self) -> bool:
        """Whether its callback must wait until a commit has it."""

    @property
    def is_start_item(self) -> bool:
        """Whether it is an item of ``start()``, of which only the pipelines work."""

    def answered(self, result: object) -> None:
        """Handle the downloader's answer: a response, request or failure."""

    def takes_item(self) -> None:
        """The callback has yielded an item, which goes on to the pipelines."""

    def gave_up(self, error: BaseException) -> None:
        """There is no page for the callback: the errback gets this exception."""

    def closed_spider(self, error: BaseException, response: object) -> None:
        """The callback or errback has raised ``CloseSpider``, given a response."""

    def raised(self, error: BaseException, response: object) -> None:
        """The callback or errback has raised an exception, given a response."""

    def aborted(self, error: BaseException) -> None:
        """Processing has failed; the end follows."""

    def ended(self) -> None:
        """The work has ended."""
