"""Reactor: runs a coroutine that brings items to feeds, to its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.reactor import install_reactor
from twisted.python.failure import Failure

from bloomdupe.feeds.feed_format import local_path
from bloomdupe.inside_scrapy.commands import ASYNCIO

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from scrapy.extensions.feedexport import FeedSlot

    from bloomdupe.feeds.exporter import FeedExporter


def run(
    work: Coroutine[Any, Any, object], exporter: FeedExporter, slots: Iterable[FeedSlot]
) -> None:
    """Run a coroutine that gives the feeds with these slots to their storages.

    A storage for other places than local files needs the reactor, which runs once in a
    process. Ctrl-C raises :class:`KeyboardInterrupt`.
    """
    if all(local_path(slot, exporter.here) is not None for slot in slots):
        asyncio.run(work)
        return
    install_reactor(ASYNCIO, exporter.settings["ASYNCIO_EVENT_LOOP"])
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
    if isinstance(ended[0], Failure):
        ended[0].raiseException()
