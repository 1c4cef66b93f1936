"""Delivering: feeds get the items that a job keeps for them, before its crawl ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy.exceptions import NotConfigured

from bloomdupe.errors import FeedError
from bloomdupe.feeds.exporter import FeedExporter
from bloomdupe.feeds.feed import name_of
from bloomdupe.feeds.feed_job import FeedJob
from bloomdupe.feeds.stored_feeds import StoredFeeds
from bloomdupe.feeds.uri import without_secret
from bloomdupe.feeds.waiting import WaitingFeeds
from bloomdupe.moving.named_feeds import crawler_with
from bloomdupe.moving.reactor import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.extensions.feedexport import FeedSlot
    from scrapy.settings import Settings

    from bloomdupe.jobs.job import Job


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
    :func:`~bloomdupe.moving.named_feeds.crawler_with`.
    """
    with job.stores() as (store,), store.snapshot() as snapshot:
        record, path = snapshot.record("crawl") or {}, store.path
    kept = [name for name, feed in record.get("feeds", {}).items() if "index" in feed]
    if not kept:
        raise FeedError(f"{job.shown} has no feed that waits for the end of its crawl")
    crawler = crawler_with(kept, settings, store.header["identity"]["spider"], named)
    try:
        exporter = FeedExporter(crawler)
    except NotConfigured as error:
        raise FeedError(f"feeds of {job.shown} cannot be written, see above") from error
    deliveries: list[Delivery] = []

    async def tell(slot: FeedSlot, stored: bool) -> None:
        deliveries.append(Delivery(without_secret(slot.uri), slot.itemcount, stored))

    left = StoredFeeds(record, path, resumed=True)
    items = FeedJob(not_here, not_here, path)
    waiting = WaitingFeeds(exporter, items, left, tell)
    for template, options in exporter.feeds.items():
        slot = exporter.new_slot(template, options, 1)
        name = name_of(exporter, template, options)
        exporter.taken[template] = waiting.take(name, slot)

    async def work() -> None:
        await waiting.deliver()

    try:
        run(work(), exporter)
    finally:
        left.close()
    return deliveries


def not_here(*_: object) -> None:
    """Stand for a function of a crawl."""
    raise NotImplementedError("no item is scraped here")
