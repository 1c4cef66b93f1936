"""FeedExporter: Scrapy's feed exports, with every item in its file exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.misc import load_object

from bloomdupe.errors import BloomDupeError, FeedError, StoreError
from bloomdupe.feeds.feed import Feed, name_of
from bloomdupe.feeds.feed_format import appended_path, local_path
from bloomdupe.feeds.journal import ITEM
from bloomdupe.feeds.uri import parameters, without_secret
from bloomdupe.feeds.waiting import WaitingFeeds
from bloomdupe.inside_scrapy.engine import mark_failed, send_signal
from bloomdupe.inside_scrapy.feed_exporter import FeedExporterAccess
from bloomdupe.printable import logger_of
from bloomdupe.store.participant import Part

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.extensions.feedexport import FeedSlot

    from bloomdupe.feeds.delivery import WaitingFeed
    from bloomdupe.feeds.feed_job import FeedJob
    from bloomdupe.feeds.stored_feeds import StoredFeeds

logger = logger_of(__name__)


class FeedExporter(FeedExporterAccess):
    """Replaces ``scrapy.extensions.feedexport.FeedExporter``.

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
        self._job: FeedJob | None = None
        self._left: StoredFeeds | None = None
        self.durable: list[Feed] = []
        """The feeds that are appended to local files, in the order of their numbers."""
        self._waiting: WaitingFeeds | None = None
        self._encoders: list[Feed | WaitingFeeds] = []
        self.taken: dict[str, Feed | WaitingFeed] = {}
        """The feeds that were taken from Scrapy, by the templates of their URIs."""
        self._lost: dict[str, Any] = {}
        self._ending = self._finishing = self._closed = False
        self._finished = self._idle = False

    @classmethod
    def of(cls, crawler: Crawler) -> FeedExporter:
        """Return the feed exporter of a crawl; it has no feeds if it is off."""
        exporter = crawler.get_extension(FeedExporter)
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
    def check_job(cls, crawler: Crawler, left: StoredFeeds) -> None:
        """Raise the errors of :meth:`restore` before anything is open; change nothing.

        Raises :class:`~bloomdupe.errors.FeedError`.
        """
        exporter = cls(crawler)
        if not cls.is_enabled(crawler):
            exporter.feeds.clear()
        exporter._checked(left)

    def restore(self, job: FeedJob, left: StoredFeeds) -> None:
        """Make the feeds part of the checkpoint; called when the crawl opens.

        Raises :class:`~bloomdupe.errors.FeedError` for a feed that cannot be continued.
        """
        slots = self._checked(left)
        self._left = left
        self._waiting = WaitingFeeds(self, job, left, self.tell)
        self._encoders = [self._waiting]
        for template, (name, slot) in slots.items():
            place = appended_path(slot, self.here)
            if place is None:
                self.taken[template] = self._waiting.take(name, slot)
                continue
            known = left.take(name, slot.feed_options, place)
            feed = Feed(len(self.durable), slot, self, known, left.lines)
            self.taken[template] = feed
            self.durable.append(feed)
        self._encoders[:0] = self.durable
        self._lost = left.lost()
        self._finished = self._idle = left.resumed and left.finished
        self.feeds.clear()
        self._job = job

    def _checked(self, left: StoredFeeds) -> dict[str, tuple[str, FeedSlot]]:
        """Compare the feeds with the last run; return their names and slots."""
        slots, templates = {}, dict[object, str]()
        for template, options in self.feeds.items():
            name = name_of(self, template, options)
            uri = self.uri_of(template, options, 1, left.moment, left.moment)
            slot = self.new_slot(template, options, 1, uri)
            slots[template] = name, slot
            place = local_path(slot, self.here)
            if place is not None and not options["batch_item_count"]:
                other = templates.setdefault(place, template)
                if other != template:
                    raise FeedError(
                        f"FEEDS: the feeds {without_secret(other)} and"
                        f" {without_secret(template)} have the same file {place}; give"
                        " each a name of its own"
                    )
        left.check_feeds({name: self.feeds[t] for t, (name, _) in slots.items()})
        for name, slot in slots.values():
            left.check_feed(name, appended_path(slot, self.here))
        return slots

    def open_spider(self, spider: Spider) -> None:
        """Open feeds; called by Scrapy when the scheduler is open."""
        if self._waiting is None:
            super().open_spider(spider)
        else:
            self._waiting.warn()

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
        lines, failure = [], None
        for feed in self._encoders:
            try:
                if feed.accepts(item):
                    lines.append((feed.number, feed.encode(item)))
            except (BloomDupeError, MemoryError) as error:
                job.fail(error)  # the item must not be lost
            except Exception as error:  # noqa: BLE001 - of any filter or exporter
                failure = error  # the other feeds get the item all the same
        job.put(response, lines)
        if failure is not None:
            raise failure

    @property
    def parameters(self) -> set[str]:
        """Attributes of the spider that name places of feeds."""
        return set().union(*map(parameters, self.taken))

    def fail(self, error: Exception) -> None:
        """Stop the crawl, because a part of an item cannot be kept."""
        if self._job is not None:
            self._job.fail(error)

    @property
    def held_back(self) -> list[str]:
        """Names of the feeds that are delivered when the crawl has finished."""
        return [] if self._waiting is None else self._waiting.names

    # Checkpoints

    def sync(self) -> None:
        """Sync the files, so that the job may drop the last pieces."""
        self.append()
        for feed in self.durable:
            if feed.file is not None:
                feed.file.sync()

    def prepare(self, lines: Iterable[tuple[int, bytes]]) -> Part:
        """Return the part of the next checkpoint; nothing that counts is changed.

        ``lines`` are ``(number of the feed, line)`` of all items that are settled and
        not committed. They go into the files of the job one by one. Raises
        :class:`~bloomdupe.errors.FeedError`, and any exception of exporters and
        plugins; the same lines can be given again.
        """
        waiting, left = self._waiting, self._left
        assert waiting is not None and left is not None  # noqa: S101, PT018
        left.lines.begin(anew=True)
        waiting.begin()
        for feed in self.durable:
            feed.begin()
        taken = False
        for number, line in lines:
            taken = True
            (waiting if number == ITEM else self.durable[number]).add(line)
        unchanged = self._finished and not taken
        finishing = self._finishing and not unchanged
        feeds = {
            feed.name: feed.seal(ending=self._ending, finishing=finishing)
            for feed in self.durable
        }

        def done() -> None:
            self._finished = finishing or unchanged
            self._idle = self._idle and not taken
            for feed in self.durable:
                feed.done()
            waiting.done()
            left.lines.done()

        return Part(
            entries={
                "feeds": {**feeds, **waiting.records(), **self._lost},
                "lines": left.lines.seal(),
                "journal": waiting.journal.seal(),
                "feeds_moment": left.moment.isoformat(),
                "feeds_finished": finishing or unchanged,
            },
            done=done,
        )

    def append(self) -> None:
        """Write the committed lines to the files.

        Raises :class:`~bloomdupe.errors.FeedError`; the job keeps the lines then.
        """
        for feed in self.durable:
            feed.append()

    # The end

    def end(self, *, finished: bool) -> None:
        """Announce the end of the run: only the next :meth:`prepare` gets more lines.

        ``finished`` says that the crawl ends, too.
        """
        self._ending, self._finishing = True, finished

    async def close_spider(self, spider: Spider) -> None:
        """Report the files, and make the deliveries; called by Scrapy.

        The scheduler has closed by then, so the store may be closed, too.
        """
        self._closed = True
        for feed in self.durable:
            feed.close()
            if feed.file is not None and not self._idle:
                await self.tell(feed.slot, stored=True, quiet=not feed.has_grown)
        if self._waiting is not None:
            if not self._finished:
                self._waiting.say_kept()
            elif not await self._deliver(self._waiting):
                mark_failed(self.crawler)
        if self._left is not None:
            self._left.close()
        await super().close_spider(spider)

    async def _deliver(self, waiting: WaitingFeeds) -> bool:
        try:
            return await waiting.deliver()
        except (FeedError, StoreError) as error:
            logger.error(  # noqa: TRY400 - a line says it all
                "%(error)s. No feed is delivered; the items are kept: run the same"
                " command again",
                {"error": error},
                extra={"spider": self.crawler.spider},
            )
            return False

    async def tell(self, slot: FeedSlot, stored: bool, *, quiet: bool = False) -> None:
        """Report a complete file in the log, in the stats and by a signal."""
        assert self.crawler.stats is not None  # noqa: S101 - it runs
        kind = type(slot.storage).__name__
        how = "success" if stored else "failed"
        self.crawler.stats.inc_value(f"feedexport/{how}_count/{kind}")
        if stored and not quiet:
            logger.info(
                "Stored %(format)s feed (%(count)d items) in: %(uri)s",
                {
                    "format": slot.format,
                    "count": slot.itemcount,
                    "uri": without_secret(slot.uri),
                },
                extra={"spider": slot.spider},
            )
        sent = send_signal(self.crawler, signals.feed_slot_closed, slot=slot)
        await maybe_deferred_to_future(sent)
