"""Reactor: runs a coroutine to its end in the reactor, which storages of feeds need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.reactor import install_reactor

from bloomdupe.inside_scrapy.commands import ASYNCIO

if TYPE_CHECKING:
    from collections.abc import Coroutine


def run_in_reactor(work: Coroutine[Any, Any, None], loop: str | None) -> None:
    """Run a coroutine in the reactor, once in a process; ``loop`` is its event loop.

    Ctrl-C raises :class:`KeyboardInterrupt`.
    """
    install_reactor(ASYNCIO, loop)
    from twisted.internet import reactor as any_reactor

    reactor: Any = any_reactor
    ended: list[Any] = []

    def end(result: object) -> None:
        ended.append(result)
        if reactor.running:
            reactor.stop()

    reactor.callWhenRunning(lambda: deferred_from_coro(work).addBoth(end))
    reactor.run()
    if not ended:
        raise KeyboardInterrupt
    if ended[0] is not None:
        ended[0].raiseException()
