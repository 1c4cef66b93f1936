"""Delivering: feeds get the items that a job keeps for them, before its crawl ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.reactor import install_reactor
from twisted.python.failure import Failure

from bloomdupe.errors import FeedError
from bloomdupe.feeds.delivery import Deliveries
from bloomdupe.feeds.feed import name_of
from bloomdupe.feeds.feed_format import local_path, without_secret
from bloomdupe.feeds.stored_feeds import StoredFeeds
from bloomdupe.inside_scrapy.commands import ASYNCIO
from bloomdupe.moving.named_feeds import exporter_with

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Sequence

    from scrapy.extensions.feedexport import FeedSlot
    from scrapy.settings import Settings

    from bloomdupe.feeds.exporter import FeedExporter
    from bloomdupe.jobs.job import Job


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


class Delivery(NamedTuple):
    """A file that was given to its storage."""

    uri: str
    items: int
    stored: bool
    """Whether the storage has accepted it; if not, the log says why."""


def deliver(
    job: Job, settings: Settings | None, named: Sequence[str]
) -> list[Delivery]:
    """Write all items of a job to the feeds that wait for the end of its crawl.

    The crawl may run. Raises :class:`~bloomdupe.errors.FeedError`; see also
    :func:`~bloomdupe.moving.named_feeds.exporter_with`.
    """
    with job.stores() as (store,), store.snapshot() as snapshot:
        record, path = snapshot.record("crawl") or {}, store.path
    kept = [name for name, feed in record.get("feeds", {}).items() if "index" in feed]
    if not kept:
        raise FeedError(f"{job.shown} has no feed that waits for the end of its crawl")
    spider = store.header["identity"]["spider"]
    exporter = exporter_with(kept, settings, spider, named, job.shown)
    deliveries: list[Delivery] = []

    async def tell(slot: FeedSlot, stored: bool) -> None:
        deliveries.append(Delivery(without_secret(slot.uri), slot.itemcount, stored))

    left = StoredFeeds(record, path, resumed=True)
    feeds = [
        left.take_waiting(
            name_of(exporter, template, options),
            exporter.new_slot(template, options, 1),
        )
        for template, options in exporter.feeds.items()
    ]
    try:
        work = Deliveries(exporter, left, tell).deliver(feeds)
        run(work, exporter, [feed.slot for feed in feeds])
    finally:
        left.close()
    return deliveries
