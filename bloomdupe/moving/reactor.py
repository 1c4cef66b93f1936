"""Reactor: runs a coroutine to its end, in Scrapy's reactor or without a reactor."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.reactor import install_reactor
from twisted.internet.defer import Deferred

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from scrapy.settings import BaseSettings

    Pause = Callable[[float], Awaitable[None]]
    Work = Callable[[Pause], Coroutine[Any, Any, None]]


def run_without_reactor(work: Work) -> None:
    """Run a coroutine that awaits nothing but its pauses."""

    async def pause(seconds: float) -> None:
        time.sleep(seconds)

    try:
        work(pause).send(None)
    except StopIteration:
        return
    raise AssertionError("it waits for something that needs a reactor")


def run_in_reactor(settings: BaseSettings, work: Work) -> None:
    """Run a coroutine in the reactor of the settings; once in a process.

    Ctrl-C raises :class:`KeyboardInterrupt`.
    """
    if settings["TWISTED_REACTOR"]:
        install_reactor(settings["TWISTED_REACTOR"], settings["ASYNCIO_EVENT_LOOP"])
    from twisted.internet import reactor as any_reactor

    reactor: Any = any_reactor
    ended: list[object] = []

    async def pause(seconds: float) -> None:
        over: Deferred[None] = Deferred()
        reactor.callLater(seconds, over.callback, None)
        await maybe_deferred_to_future(over)

    def end(result: object) -> None:
        ended.append(result)
        if reactor.running:
            reactor.stop()

    reactor.callWhenRunning(lambda: deferred_from_coro(work(pause)).addBoth(end))
    reactor.run()
    if not ended:
        raise KeyboardInterrupt
    failure: Any = ended[0]
    if failure is not None:
        failure.raiseException()
