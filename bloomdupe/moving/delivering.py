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
from bloomdupe.inside_scrapy.helpers import feed_process_params_from_cli
from bloomdupe.jobs.project import Project
from bloomdupe.moving.named_feeds import known_feed
from bloomdupe.moving.reactor import run
from bloomdupe.requests.serializer import Serializer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.crawler import Crawler
    from scrapy.extensions.feedexport import FeedSlot
    from scrapy.settings import Settings

    from bloomdupe.jobs.job_place import JobPlace


class Delivery(NamedTuple):
    """A file that was given to its storage."""

    uri: str
    items: int
    stored: bool
    """Whether the storage has accepted it; if not, the log says why."""


class _KeptFeeds(FeedExporter):
    """Tells nothing but the result: no extension listens here."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self.deliveries: list[Delivery] = []

    def tell(self, slot: FeedSlot, stored: bool, *, quiet: bool = False) -> None:  # noqa: ARG002
        uri = without_secret(slot.uri)
        self.deliveries.append(Delivery(uri, slot.itemcount, stored))


def deliver(
    job: JobPlace, settings: Settings | None, named: Sequence[str]
) -> list[Delivery]:
    """Write all items of a job to the feeds that wait for the end of its crawl.

    The crawl may run. No place is taken from the store: the feeds are those of the
    ``settings``, and those that are ``named`` as ``-o`` names them. Raises
    :class:`~bloomdupe.errors.FeedError`.
    """
    with job.stores() as (store,), store.snapshot() as snapshot:
        record, path = snapshot.record("crawl") or {}, store.path
    kept = [name for name, feed in record.get("feeds", {}).items() if "index" in feed]
    if not kept:
        raise FeedError(f"{job.shown} has no feed that waits for the end of its crawl")
    project = Project(settings, store.header["identity"]["spider"])
    feeds = project.settings.getdict("FEEDS")
    feeds |= feed_process_params_from_cli(project.settings, [*named])
    found = [known_feed(name, feeds, project.settings) for name in kept]
    lacking = [name for name, feed in zip(kept, found, strict=True) if feed is None]
    if lacking:
        raise FeedError(
            f"FEEDS has no feed {' and '.join(lacking)}: run this in the folder of the"
            f" project, or add --feed {' --feed '.join(lacking)}"
        )
    crawler = project.crawler_for(dict(feed for feed in found if feed is not None))
    try:
        exporter = _KeptFeeds(crawler)
    except NotConfigured as error:
        raise FeedError(f"feeds of {job.shown} cannot be written, see above") from error
    assert crawler.spider is not None  # noqa: S101 - the project has made it
    items = Serializer(crawler.spider)
    left = StoredFeeds(record, path, resumed=True)
    waiting = WaitingFeeds(
        exporter,
        FeedJob(_not_here, _not_here, items.dump_item, items.load_value, path),
        left,
        exporter.tell,
    )
    for template, options in exporter.feeds.items():
        slot = exporter.new_slot(template, options, 1)
        waiting.take(name_of(exporter, template, options), slot)

    async def work() -> None:
        await waiting.deliver()

    try:
        run(work(), exporter, waiting.slots.values())
    finally:
        left.close()
    return exporter.deliveries


def _not_here(*_: object) -> None:
    raise NotImplementedError("no item is scraped here")
