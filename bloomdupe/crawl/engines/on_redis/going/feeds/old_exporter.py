"""OldFeedExporter: Scrapy's feed exports, with every item in its file exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.misc import load_object
from w3lib.url import file_uri_to_path

from bloomdupe.crawl.engines.on_redis.going.feeds.draft import OldDraft
from bloomdupe.crawl.engines.on_redis.going.feeds.old_delivery import OldDeliveries
from bloomdupe.crawl.engines.on_redis.going.feeds.old_feed import (
    OldFeed,
    encode,
    name_of,
    template_of,
)
from bloomdupe.crawl.engines.on_redis.going.feeds.old_feed_format import (
    is_direct,
    local_path,
    replaces,
)
from bloomdupe.crawl.engines.on_redis.going.feeds.old_feed_job import OldFeedsPart
from bloomdupe.crawl.engines.on_redis.going.feeds.old_uri import (
    is_local,
    parameters,
    without_secret,
)
from bloomdupe.crawl.engines.on_redis.going.feeds.spool import Spool, stored
from bloomdupe.crawl.engines.on_redis.going.feeds.spooled_feed import SpooledFeed
from bloomdupe.errors import BloomDupeError, FeedError
from bloomdupe.inside_scrapy.engine import send_signal
from bloomdupe.inside_scrapy.feed_exporter import FeedExporterAccess
from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.extensions.feedexport import FeedSlot
    from twisted.internet.defer import Deferred

    from bloomdupe.crawl.engines.on_redis.going.feeds.old_feed_job import OldFeedJob
    from bloomdupe.crawl.engines.on_redis.going.feeds.old_stored_feeds import (
        OldMissingFeed,
        OldStoredFeeds,
    )

logger = logger_of(__name__)

MOST_BYTES = 1 << 20
"""Bytes of lines in one transaction: they block the crawl for some 10 ms."""
MOST_BATCHES = 200
"""Batches that begin in one transaction: each of them is a file that is synced."""


class OldFeedExporter(FeedExporterAccess):
    """Replaces ``scrapy.extensions.feedexport.OldFeedExporter``.

    With :class:`bloomdupe.FrontierScheduler` and a ``JOBDIR``, feeds are part of the
    checkpoint: an item stays in memory until its request is settled, and is committed
    together with the request. Otherwise, all is as in Scrapy.

    A checkpoint calls, in this order, :meth:`sync`, :meth:`prepare`, (commits),
    ``done`` of the part, :meth:`append`.
    """

    def __init__(self, crawler: Crawler) -> None:
        try:
            super().__init__(crawler)
        except NotConfigured:
            # There are no feeds now, but the job may have begun with feeds.
            if not crawler.settings["JOBDIR"]:
                raise
            self.feeds.clear()
        self._job: OldFeedJob | None = None
        self.durable: list[OldFeed] = []
        """The feeds that are part of the checkpoint, in the order of their numbers."""
        self._late: dict[str, dict[str, Any]] = {}
        self._taken: dict[str, dict[str, Any]] = {}
        self._names: dict[str, str] = {}
        self._in_store: set[str] = set()
        self._lost: list[OldMissingFeed] = []
        self._whole = True
        self._ending = self._finishing = self._closed = False
        self._finished = False
        self._idle = False
        self._announced: list[Deferred[Any]] = []

    @classmethod
    def of(cls, crawler: Crawler) -> OldFeedExporter:
        """Return the feed exporter of a crawl; it has no feeds if it is off."""
        exporter = crawler.get_extension(OldFeedExporter)
        if exporter is None:
            exporter = cls(crawler)
            exporter.feeds.clear()
            crawler.signals.connect(exporter.item_scraped, signals.item_scraped)
        return exporter

    @classmethod
    def is_enabled(cls, crawler: Crawler) -> bool:
        """Whether the settings let Scrapy make this extension."""
        extensions = crawler.settings.getwithbase("EXTENSIONS").items()
        return cls in (load_object(name) for name, at in extensions if at is not None)

    # Opening

    @classmethod
    def check_job(cls, crawler: Crawler, left: OldStoredFeeds) -> None:
        """Raise the errors of :meth:`restore` before anything is open; change nothing.

        Raises :class:`~bloomdupe.errors.FeedError`.
        """
        exporter = cls(crawler)
        if not cls.is_enabled(crawler):
            exporter.feeds.clear()
        exporter._checked(exporter.feeds, left)
        left.check()

    def restore(self, job: OldFeedJob, left: OldStoredFeeds) -> None:
        """Make the feeds part of the checkpoint; called when the crawl opens.

        Raises :class:`~bloomdupe.errors.FeedError` for a feed that cannot be continued.
        """
        self._names = self._checked(self.feeds, left)
        left.check()
        left.finish()
        self._spool = spool = Spool(left.spool, job.dump, job.load)
        self._deliveries = OldDeliveries(self, spool, self.tell, self._in_use)
        self._deliveries.restore(left.deliveries)
        for template, options in self.feeds.items():
            try:
                self._take_feed(template, options, left)
            except KeyError:  # its URI is not known yet
                self._late[template] = options
        self._taken = dict(self.feeds)
        self.feeds.clear()
        self._in_store = left.names_in_spool
        self._lost = left.lost()
        self._left = left.again(self._lost)
        self._finished = self._idle = left.resumed and left.finished
        self._job = job

    def _checked(
        self, feeds: dict[str, dict[str, Any]], left: OldStoredFeeds
    ) -> dict[str, str]:
        """Compare the feeds with the last run; return their names by template."""
        names, templates = {}, dict[str, str]()
        for template, options in feeds.items():
            path = self._path_of(template, options)
            other = template if path is None else templates.setdefault(path, template)
            if other != template:
                raise FeedError(
                    f"FEEDS: the feeds {without_secret(other)} and"
                    f" {without_secret(template)} have the same file {path}; give each"
                    " a name of its own"
                )
            names[template] = left.name_of(name_of(self, template, options), path)
        left.check_feeds({names[t]: options for t, options in feeds.items()})
        of_run = {**self._taken, **feeds}
        left.expect([*filter(None, map(self.place_template, of_run, of_run.values()))])
        return names

    def place_template(self, template: str, options: dict[str, Any]) -> str | None:
        """Return a template that each path of a feed fits; None: no local file."""
        uri = template_of(self, template, options)
        if not is_local(uri):
            return None
        return str(self.here / file_uri_to_path(uri))

    def _path_of(self, template: str, options: dict[str, Any]) -> str | None:
        """Return the path of a feed that is one local file; None for other feeds."""
        if options["batch_item_count"]:
            return None
        try:
            slot = self.new_slot(template, options, 1)
        except KeyError:
            return None
        place = local_path(slot, self.here)
        return None if place is None else str(place)

    def _take_feed(
        self, template: str, options: dict[str, Any], left: OldStoredFeeds
    ) -> None:
        """Take a feed from Scrapy.

        Raises :class:`KeyError` if the spider lacks a parameter of its URI.
        """
        slot = self.new_slot(template, options, 1)
        number, name = len(self.durable), self._names[template]
        if is_direct(slot, self.here):
            known = left.take(name, options)
            self.durable.append(OldFeed(number, template, options, self, known))
            return
        present = left.spooled(name)
        known = left.take_spooled(name, replaces=replaces(slot))
        if known.file is not None and known.record is not None and present:
            size = self._deliveries.sizes.get(present)
            if size is not None:
                known.record["delivered"] = size
        elif present:
            self._deliveries.forget(present)
        self.durable.append(
            SpooledFeed(number, template, options, self, known, self._spool)
        )

    def open_spider(self, spider: Spider) -> None:
        """Open feeds; called by Scrapy when the scheduler is open."""
        if self._job is None:
            super().open_spider(spider)
            return
        try:
            if self._late:
                self._take_late(self._left)
        except Exception as error:  # noqa: BLE001 - of any function for parameters
            self._job.fail(error)
        self._deliveries.set_feeds(
            {
                self._names[template]: (template, options)
                for template, options in self._taken.items()
            }
        )
        self._deliveries.start()

    def _take_late(self, left: OldStoredFeeds) -> None:
        """Take the feeds with parameters that are known only now."""
        self._names |= self._checked(self._late, left)
        left.finish()
        for template, options in self._late.items():
            self._take_feed(template, options, left)
        self._lost = left.lost()

    # Items

    def item_scraped(  # type: ignore[override]
        self,
        item: object,
        response: Any,  # noqa: ANN401 - a response, a failure or None
        spider: Spider,
    ) -> None:
        """Take an item; called by Scrapy."""
        job = self._job
        if job is None:
            if self.slots:
                super().item_scraped(item, spider)
            return
        if self._closed:
            return  # its request is not settled: the next run yields it again
        lines: list[tuple[int, bytes]] = []
        try:
            encode(item, self.durable, lines)
        except (BloomDupeError, MemoryError) as error:
            job.fail(error)  # the item must not be lost
        finally:
            job.put(response, lines)

    @property
    def parameters(self) -> set[str]:
        """Attributes of the spider that name places of feeds."""
        return set().union(*map(parameters, self._taken))

    def fail(self, error: Exception) -> None:
        """Stop the crawl, because a part of an item cannot be kept."""
        if self._job is not None:
            self._job.fail(error)

    @property
    def held_back(self) -> list[str]:
        """Names of the feeds that are delivered when the crawl has finished."""
        return [
            feed.name
            for feed in self.durable
            if isinstance(feed, SpooledFeed) and not feed.most
        ]

    # Checkpoints

    def sync(self) -> None:
        """Sync the files, so that the store may drop the last pieces."""
        for feed in self.durable:
            for file in feed.files:
                file.sync()

    def prepare(
        self, lines: Iterable[tuple[int, bytes]], most_bytes: int | None = None
    ) -> OldFeedsPart:
        """Return the part of the next checkpoint; nothing is changed by that.

        ``lines`` are ``(number of the feed, line)`` of all items that are settled and
        not committed. They are not all in the part if they have more than
        ``most_bytes`` (by default ``MOST_BYTES``). Raises
        :class:`~bloomdupe.errors.FeedError`, and any exception of exporters and
        plugins; the same lines can be given again.
        """
        drafts = [OldDraft(feed) for feed in self.durable]
        most_bytes = most_bytes or MOST_BYTES
        size = begun = taken = 0
        iterator = iter(lines)
        for number, line in iterator:
            begun += drafts[number].add(line)
            size += len(line)
            taken += 1
            if size >= most_bytes or begun >= MOST_BATCHES:
                break
        whole = next(iterator, None) is None
        unchanged = self._finished and not taken
        finishing = whole and self._finishing and not unchanged
        for draft in drafts:
            draft.seal(
                whole=whole, finishing=finishing, hold=whole and not self._ending
            )
        files: list[dict[str, Any]] = []
        blobs: dict[str, bytes] = {}
        feeds = {
            feed.name: draft.record(files, blobs)
            for feed, draft in zip(self.durable, drafts, strict=True)
        }
        for lost in self._lost:
            lost.keep(feeds, files, blobs)
        changed = {draft.changed for draft in drafts if draft.changed}
        new = [
            delivery
            for feed, draft in zip(self.durable, drafts, strict=True)
            if isinstance(feed, SpooledFeed)
            for delivery in feed.deliveries(draft.complete())
        ]
        entries = {
            "feeds": feeds,
            "files": [stored(file, self._spool.directory) for file in files],
            "feeds_finished": finishing or unchanged,
            "deliveries": self._deliveries.records(changed, new),
        }
        gone = self._deliveries.gone
        part = OldFeedsPart(entries=entries, blobs=blobs, taken=taken, whole=whole)

        def done() -> None:
            self._committed(part)
            for draft in drafts:
                draft.done()
            self._deliveries.committed(changed, new)
            self._deliveries.tidy(gone)

        part.done = done
        return part

    def _committed(self, part: OldFeedsPart) -> None:
        self._whole = part.whole
        self._finished = part.entries["feeds_finished"]
        if part.taken:
            self._idle = False
        files = part.entries["files"]
        self._in_store = {file["path"] for file in files if "spooled" in file}

    def append(self) -> None:
        """Write the committed pieces to the files.

        Raises :class:`~bloomdupe.errors.FeedError`; the store keeps the pieces then.
        """
        for feed in self.durable:
            for slot in feed.append(whole=self._whole):
                if not isinstance(feed, SpooledFeed):
                    self.tell(slot, True)
        self._deliveries.start()

    # The end

    def end(self, *, finished: bool) -> None:
        """Announce the end of the run: only the next :meth:`prepare` gets more lines.

        ``finished`` says that the crawl ends, too.
        """
        self._ending, self._finishing = True, finished

    async def close_spider(self, spider: Spider) -> None:
        """Report the stored feeds, and make the last deliveries; called by Scrapy.

        The scheduler has closed by then, so the store may be closed, too.
        """
        self._closed = True
        for feed in self.durable:
            self._close_feed(feed)
        if self._job is not None:
            await self.deliver()
        for sent in self._announced:
            await maybe_deferred_to_future(sent)
        await super().close_spider(spider)

    async def deliver(self) -> None:
        """Make all deliveries that are complete."""
        await self._deliveries.finish()

    def _close_feed(self, feed: OldFeed) -> None:
        slot = feed.batch.slot
        if feed.batch.file is not None and not self._idle:
            if feed.batch.file.content.held:
                logger.info(
                    "Kept items of the %(format)s feed in the job; they are written to"
                    " %(uri)s when the crawl goes on",
                    {"format": slot.format, "uri": without_secret(slot.uri)},
                    extra={"spider": slot.spider},
                )
            elif not isinstance(feed, SpooledFeed):
                self.tell(slot, True)
            elif not self._finished:
                logger.info(
                    "Kept %(format)s feed (%(count)d items) in the job; it is stored in"
                    " %(uri)s when the crawl has finished",
                    {
                        "format": slot.format,
                        "count": slot.itemcount,
                        "uri": without_secret(slot.uri),
                    },
                    extra={"spider": slot.spider},
                )
        feed.close()

    def _in_use(self) -> set[str]:
        """Return the names of the spool's files that are in the store."""
        return self._in_store

    def tell(self, slot: FeedSlot, stored: bool) -> None:
        """Report a complete file in the log, in the stats and by a signal."""
        assert self.crawler.stats is not None  # noqa: S101 - it runs
        kind = type(slot.storage).__name__
        how = "success" if stored else "failed"
        self.crawler.stats.inc_value(f"feedexport/{how}_count/{kind}")
        if stored:
            logger.info(
                "Stored %(format)s feed (%(count)d items) in: %(uri)s",
                {
                    "format": slot.format,
                    "count": slot.itemcount,
                    "uri": without_secret(slot.uri),
                },
                extra={"spider": slot.spider},
            )
        self._announced = [sent for sent in self._announced if not sent.called]
        self._announced.append(
            send_signal(self.crawler, signals.feed_slot_closed, slot=slot)
        )
