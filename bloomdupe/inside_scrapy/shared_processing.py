# mypy: ignore-errors
# ruff: noqa: ANN001, ANN002, ANN003, ANN202, ANN204, ANN401
"""SharedProcessing: tells requests in progress of the steps of their callbacks."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from twisted.python.failure import Failure

from bloomdupe.inside_scrapy.processing import Processing, _Tasks
from bloomdupe.inside_scrapy.work import Work

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable


class SharedWork(Work):
    """A request in progress that is told of the steps of its callback."""

    in_step: bool
    """Whether an asynchronous callback is on the way to its next output, or to its
    return. While other code runs, it waits then.
    """

    def given(self, result: object) -> None:
        """Handle the argument of the callback (a response) or errback (a failure)."""

    def may_wait(self) -> None:
        """Handle the begin of such a step, after earlier steps."""


async def step(following: Awaitable[Any], work: SharedWork) -> Any:
    """Await a step of an asynchronous callback, of which its work is told."""
    work.in_step = True
    try:
        work.may_wait()
        return await following
    finally:
        work.in_step = False


class Steps:
    """Outputs of an asynchronous callback; its work is told of each step."""

    def __init__(self, outputs: AsyncIterator[Any], work: SharedWork | None) -> None:
        self._outputs = outputs
        self._work = work

    def __aiter__(self) -> Steps:
        return self

    def __anext__(self) -> Awaitable[Any]:
        following = self._outputs.__anext__()
        return following if self._work is None else step(following, self._work)


class SharedProcessing(Processing):
    """Tells requests in progress what their callbacks get, and when they wait."""

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self._thread = threading.get_ident()

    def _call(self, result, request):
        work = self._work_of(request)
        if work is None:
            return self._call_spider(result, request)
        work.given(result)
        if isinstance(result, Failure) and result.value is not None:
            work.gave_up(result.value)
        return step(self._call_spider(result, request), work)

    async def _hand_on_each_async(self, outputs, response, work):
        items = _Tasks(self._scraper.concurrent_items)
        async for output in Steps(outputs, work):
            if (item := self._take_output(output, response, work)) is not None:
                await items.start(item)
            if self._crowded():
                await self._breathe()
        await items.join()

    def in_callback(self) -> Any:
        """Return the work whose callback runs at this moment; None if none does.

        Another thread may call this, if the reactor is blocked.
        """
        ours = {step.__code__, Processing._hand_on_each.__code__}
        frame = sys._current_frames().get(self._thread)
        while frame is not None and frame.f_code not in ours:
            frame = frame.f_back
        return None if frame is None else frame.f_locals["work"]
