"""FeedExporter: Scrapy's feed exports, with every item in its file exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.extensions.feedexport import FeedExporter as ScrapysFeedExporter
from scrapy.utils.python import global_object_name

from bloomdupe.errors import (
    FeedError,
    StoreError,
    UnserializableError,
)
from bloomdupe.feeds.appended_feed import AppendedFeed
from bloomdupe.feeds.delivery import deliver
from bloomdupe.feeds.feed import WaitingFeed, waits
from bloomdupe.feeds.feed_format import (
    check_writable,
    described,
    local_path,
    parameters,
    with_parameters,
    without_secret,
)
from bloomdupe.feeds.journal import ITEM, packed, unpacked
from bloomdupe.inside_scrapy.engine import mark_failed
from bloomdupe.inside_scrapy.feed_exporter import FeedExporterAccess, add_extension
from bloomdupe.printable import logger_of
from bloomdupe.requests.values import pack_item
from bloomdupe.settings import has_job
from bloomdupe.store.store import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.extensions.feedexport import FeedSlot

    from bloomdupe.feeds.feed import Feed
    from bloomdupe.feeds.stored_feeds import StoredFeeds

    Line = tuple[int, bytes]
    """A line of a feed for an item, with the feed's number."""

logger = logger_of(__name__)


class FeedExporter(FeedExporterAccess):
    """Replaces ``scrapy.extensions.feedexport.FeedExporter``.

    With :class:`bloomdupe.FrontierScheduler` and a ``JOBDIR``, feeds are part of the
    checkpoint: an item stays in memory until its request is acknowledged, and is
    committed together with the request. Otherwise, all is as in Scrapy.

    A checkpoint calls, in this order, :meth:`prepare`, (commits), ``done`` of the part,
    :meth:`append`.
    """

    def __init__(self, crawler: Crawler) -> None:
        try:
            super().__init__(crawler)
        except NotConfigured:
            # There are no feeds now, but the job may have begun with feeds.
            if not has_job(crawler.settings):
                raise
            self.feeds.clear()
        self.fail: Callable[[Exception], None] = lambda _: None
        """Stops the crawl, because a part of an item cannot be kept."""
        self.scraped: Callable[[object, Any], None] | None = None
        """Takes an item and its response, if the feeds are part of the checkpoint."""
        self._left: StoredFeeds | None = None
        self.taken: Sequence[Feed] = ()
        """The feeds that were taken from Scrapy."""
        self._finishing = self._finished = False

    @classmethod
    def of(cls, crawler: Crawler) -> FeedExporter:
        """Return the feed exporter of a crawl; it has no feeds if it is off."""
        exporter = crawler.get_extension(FeedExporter)
        if exporter is None:
            other = crawler.get_extension(ScrapysFeedExporter)
            exporter = cls(crawler)
            exporter.feeds.clear()
            add_extension(crawler, exporter)
            crawler.signals.connect(exporter.item_scraped, signals.item_scraped)
            if other is not None:
                logger.warning(
                    "EXTENSIONS: %(name)s writes items at once, so after a kill some"
                    " are lost or twice; only bloomdupe.FeedExporter is safe",
                    {"name": global_object_name(type(other))},
                )
        return exporter

    # Opening

    def restore(self, left: StoredFeeds | None) -> None:
        """Make the feeds part of the checkpoint; called when the crawl opens.

        From now on Scrapy knows of no feeds. A worker has none that are ``left``, and
        writes no file: all feeds wait, for ``collect``. Raises
        :class:`~bloomdupe.errors.FeedError` for a feed that cannot be continued.
        """
        self._left = left
        if left is None:
            self.taken = [
                WaitingFeed(name, slot, number)
                for number, (name, slot) in enumerate(self.named())
            ]
        else:
            self.taken = self.check(left)
            left.go_on(self.taken)
            self._finished = left.resumed and left.finished
        self.feeds.clear()

    def named(self, moment: datetime | None = None) -> Iterator[tuple[str, FeedSlot]]:
        """Yield name and slot of each feed, with the times of a moment, now by default.

        The name is its URI without the secret and the parts that change in each run. So
        a feed for another value of a spider's argument is another feed. Raises
        :class:`~bloomdupe.errors.FeedError` if the spider lacks a parameter of it, or
        if two have the same file.
        """
        templates: dict[object, str] = {}
        for template, options in self.feeds.items():
            name = without_secret(template)
            try:
                name = with_parameters(name, self.uri_params(options))
            except KeyError as error:
                raise FeedError(
                    f"FEEDS: {name} needs {error.args[0]!r}, which the spider has not"
                    " when the crawl begins: set it when the spider is made, as -a does"
                ) from error
            slot = self.new_slot(template, options, 1, moment)
            batches = options["batch_item_count"]
            place = (None if batches else local_path(slot, self.here)) or name
            other = templates.setdefault(place, template)
            if other != template:
                raise FeedError(
                    f"FEEDS: the feeds {without_secret(other)} and"
                    f" {without_secret(template)} have the same file {place}; give each"
                    " a name of its own"
                )
            yield name, slot

    def check(self, left: StoredFeeds) -> list[Feed]:
        """Return the feeds of this run; nothing is changed.

        Raises :class:`~bloomdupe.errors.FeedError` if the crawl cannot go on with them.
        """
        slots = self.named(left.moment)
        feeds = [left.feed(name, slot, self.here) for name, slot in slots]
        for feed in feeds:
            place = local_path(feed.slot, self.here)
            if place is not None:  # a feed that waits replaces the file
                check_writable(place.parent if waits(feed.record) else place)
        left.check(feeds)
        return feeds

    @property
    def waiting(self) -> list[WaitingFeed]:
        """The feeds that are delivered from here when the crawl has finished."""
        taken = () if self._left is None else self.taken
        return [feed for feed in taken if isinstance(feed, WaitingFeed)]

    @property
    def parameters(self) -> set[str]:
        """Attributes of the spider that name places of feeds."""
        return set().union(*(parameters(feed.slot.uri_template) for feed in self.taken))

    # Items

    def item_scraped(self, item: Any, spider: Spider, response: Any = None) -> None:
        """Take an item when it is the turn of Scrapy's exporter; called by Scrapy."""
        if self.scraped is None:
            super().item_scraped(item, spider)
        else:
            self.scraped(item, response)

    def take(self, item: object) -> tuple[list[Line], list[Exception]]:
        """Return the lines of an item for the feeds, and errors of their filters, too.

        Raises :class:`MemoryError`, which stops the crawl.
        """
        feeds, errors = [], list[Exception]()
        for feed in self.taken:
            try:
                if feed.slot.filter.accepts(item):
                    feeds.append(feed)
            except Exception as error:  # noqa: BLE001 - of any filter
                errors.append(error)
        lines, failed = self.lines_of(item, feeds)
        return lines, [*errors, *(error for _, error in failed)]

    def lines_of(
        self, item: object, feeds: Iterable[Feed]
    ) -> tuple[list[Line], list[tuple[Feed, Exception]]]:
        """Return the lines of an item for these feeds, and the errors of exporters.

        All feeds that wait have it once, if it can be kept for them; a value in it that
        cannot becomes a text.
        """
        lines: list[Line] = []
        failed: list[tuple[Feed, Exception]] = []
        waiting: list[int] = []
        data = b""
        for feed in feeds:
            try:
                if isinstance(feed, WaitingFeed):
                    data = data or _kept(item, elsewhere=self._left is None)
                    waiting.append(feed.number)
                elif isinstance(feed, AppendedFeed):
                    lines.append((feed.number, feed.encoder.encode(item)))
            except MemoryError:  # the crawl stops
                raise
            except Exception as error:  # noqa: BLE001 - of any exporter, or item
                failed.append((feed, error))
        if waiting:
            lines.append((ITEM, packed(waiting, data)))
        return lines, failed

    # Checkpoints

    def prepare(self, lines: Iterable[Line]) -> Part:
        """Return the part of the next checkpoint; nothing that counts is changed.

        ``lines`` are those of all items that are acknowledged and not committed. They
        go into the files of the job one by one. Raises
        :class:`~bloomdupe.errors.FeedError`, and any exception of exporters and
        plugins; the same lines can be given again.
        """
        left = self._left
        if left is None:
            return Part(output=output_of(lines))
        feeds = {feed.number: feed for feed in self.taken}
        for feed in self.taken:
            feed.begin()
        left.lines.begin(anew=True)  # by now the files have all pieces
        left.journal.begin()
        taken = False
        for number, data in lines:
            taken = True
            if number == ITEM:
                left.journal.add(data)
                for waiting in unpacked(data)[0]:
                    feeds[waiting].add(data)
            else:
                feeds[number].add(data)
        unchanged = self._finished and not taken
        finishing = self._finishing and not unchanged
        records = {f.name: f.seal(finishing=finishing) for f in self.taken}

        def done() -> None:
            self._finished = finishing or unchanged
            for feed in self.taken:
                feed.done()
            left.lines.done()
            left.journal.done()

        return Part(
            entries={
                "feeds": {**records, **left.lost},
                "lines": left.lines.seal(),
                "journal": left.journal.seal(),
                "feeds_moment": left.moment.isoformat(),
                "feeds_finished": finishing or unchanged,
            },
            done=done,
        )

    def append(self) -> None:
        """Write the committed lines to the files.

        Raises :class:`~bloomdupe.errors.FeedError`; the job keeps the lines then.
        """
        for feed in self.taken:
            feed.append()

    # The end

    def end(self, *, finished: bool) -> None:
        """Say that only the next :meth:`prepare` gets more lines of this run.

        ``finished`` says that the crawl ends, too.
        """
        self._finishing = finished

    async def close_spider(self, spider: Spider) -> None:
        """Report the files, and make the deliveries; called by Scrapy.

        The scheduler has closed by then, so the store may be closed, too.
        """
        if self._left is not None:
            for feed in self.taken:
                if feed.record["size"] is not None:
                    await self._report(feed.slot, stored=True)
            if not await self.deliver():
                mark_failed(self.crawler)
            self.release()
        await super().close_spider(spider)

    def release(self) -> None:
        """Release the files; nothing is written."""
        for feed in self.taken:
            feed.close()
        if self._left is not None:
            self._left.lines.close()
            self._left.journal.close()

    async def deliver(self) -> bool:
        """Write the feeds that wait, if the crawl has finished.

        Returns whether all went well; if not, the log says why.
        """
        left, waiting = self._left, self.waiting
        assert left is not None  # noqa: S101 - they are restored
        if not self._finished:
            for feed in waiting:
                if feed.slot.itemcount:
                    logger.info(
                        "Kept %(format)s feed (%(count)d items) in the job; it is"
                        " stored in %(uri)s when the crawl has finished",
                        described(feed.slot),
                    )
            return True
        try:
            made = await deliver(self, left, waiting) if waiting else []
        except (FeedError, StoreError) as error:
            logger.error(  # noqa: TRY400 - a line says it all
                "%(error)s. No feed is delivered; the items are kept: run the same"
                " command again",
                {"error": error},
            )
            return False
        for slot, stored in made:
            await self._report(slot, stored=stored)
        return all(stored for _, stored in made)

    async def _report(self, slot: FeedSlot, *, stored: bool) -> None:
        """Report a complete file in the log, in the stats and by a signal."""
        assert self.crawler.stats is not None  # noqa: S101 - it runs
        kind = type(slot.storage).__name__
        how = "success" if stored else "failed"
        self.crawler.stats.inc_value(f"feedexport/{how}_count/{kind}")
        if stored:
            logger.info(
                "Stored %(format)s feed (%(count)d items) in: %(uri)s",
                described(slot),
            )
        await self.crawler.signals.send_catch_log_async(
            signals.feed_slot_closed, slot=slot
        )


MOST_BYTES = 1 << 20
"""Bytes of a line of the output, unless an item is larger."""
MOST_ITEMS = 1_000
"""Items of a line: a script of Redis takes no more than some thousand arguments."""


def _kept(item: object, *, elsewhere: bool) -> bytes:
    """Return an item as the journal has it.

    If it is read ``elsewhere``, no other program has the class of an item of a script.
    """
    from itemadapter import ItemAdapter  # which a crawl without feeds does not need

    if not ItemAdapter.is_item(item):
        raise UnserializableError(f"{type(item)} is no class of an item")
    if elsewhere and type(item).__module__ == "__main__":
        item = ItemAdapter(item).asdict()
    return pack_item(item)


def output_of(lines: Iterable[Line]) -> list[list[bytes]]:
    """Return the lines of a worker's output with these items.

    An item is as the journal of a job has it. A line of the output has items of several
    pages, as the fields ``0``, ``1`` and so on.
    """
    output: list[list[bytes]] = []
    size = MOST_BYTES
    for _, data in lines:
        if size + len(data) > MOST_BYTES or len(output[-1]) >= 2 * MOST_ITEMS:
            output.append([])
            size = 0
        output[-1] += (b"%d" % (len(output[-1]) // 2), data)
        size += len(data)
    return output
