"""Delivering: feeds get the items that a job keeps for them, before its crawl ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.errors import FeedError
from bloomdupe.feeds.delivery import Deliveries
from bloomdupe.feeds.feed import name_of
from bloomdupe.feeds.stored_feeds import StoredFeeds
from bloomdupe.feeds.uri import without_secret
from bloomdupe.moving.named_feeds import exporter_with
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
