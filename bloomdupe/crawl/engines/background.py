"""Background: calls that wait for a network, on another thread."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

Result = TypeVar("Result")


class Background:
    """Runs calls on a thread, one after another, and hands over their results.

    That happens in the event loop of Scrapy. ``fail`` is told of an exception, and
    ``wake`` is called after each call.
    """

    def __init__(
        self, fail: Callable[[BaseException], None], wake: Callable[[], None]
    ) -> None:
        self._fail = fail
        self._wake = wake
        self._thread: ThreadPoolExecutor | None = None
        self._closed = False

    def run(self, call: Callable[[], Result], then: Callable[[Result], None]) -> None:
        """Call a function, and then another one with its result."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "bloomdupe reads")
        loop = asyncio.get_running_loop()
        self._thread.submit(call).add_done_callback(
            lambda done: loop.call_soon_threadsafe(self._ended, done, then)
        )

    def _ended(self, done: Future[Result], then: Callable[[Result], None]) -> None:
        if self._closed:
            return
        try:
            then(done.result())
        except Exception as error:  # noqa: BLE001 - of the call, or of what follows
            self._fail(error)
        self._wake()

    def close(self) -> None:
        """Drop the results that are still to come."""
        self._closed = True
        if self._thread is not None:
            self._thread.shutdown(wait=False)
