"""FeedExporter: Scrapy's feed exports, with every item in its file exactly once."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.extensions import feedexport
from scrapy.utils.defer import maybe_deferred_to_future

from bloomdupe.engine_access import send_signal
from bloomdupe.errors import FeedError
from bloomdupe.feed import Feed, obstacle
from bloomdupe.feedfile import FeedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.extensions.feedexport import FeedSlot
    from twisted.internet.defer import Deferred

    from bloomdupe.outcomes import Outcome, Outcomes

__all__ = ["FeedExporter"]

logger = logging.getLogger(__name__)

MOST_GATHERED = 1 << 20
"""Bytes of lines that one transaction takes: they block the crawl for some 10 ms."""


class FeedExporter(feedexport.FeedExporter):
    """Replaces ``scrapy.extensions.feedexport.FeedExporter``.

    With :class:`bloomdupe.FrontierScheduler` and a ``JOBDIR``, local files in JSON
    lines and CSV are part of the checkpoint: an item waits until its request is
    settled, and is committed together with that. All other feeds are as in Scrapy,
    and a warning says so.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._durable: list[Feed] = []
        self._outcomes: Outcomes | None = None
        self._announced: list[Deferred[Any]] = []

    # Taking up

    def take_up(
        self,
        outcomes: Outcomes,
        outcome_of: Callable[[Any], Outcome],
        record: dict[str, Any],
        pieces: dict[str, bytes],
        *,
        resumed: bool,
        accept: bool,
    ) -> None:
        """Make the feeds that allow it part of the checkpoint.

        ``outcome_of`` finds the outcome to which the items of a response belong.
        ``record`` and ``pieces`` are what :meth:`record` and :meth:`pieces` returned
        for the last checkpoint, ``resumed`` says that the crawl has not finished
        since. Raises :class:`~bloomdupe.errors.FeedError` for a feed that cannot be
        continued, unless ``accept`` takes changed files as they are.
        """
        self._outcomes = outcomes
        self._outcome_of = outcome_of
        feeds = record.get("feeds", {})
        files = self._take_up_files(record, pieces, resumed=resumed, accept=accept)
        spider = self.crawler.spider
        assert spider is not None  # noqa: S101 - the scheduler is open
        others = []
        for template, options in list(self.feeds.items()):
            start = partial(self._slot_of, template, options, spider)
            try:
                slot = start(1)
            except KeyError as error:
                others.append((template, f"the spider has no {error} yet", ""))
                continue
            why = obstacle(slot)
            if why is not None:
                others.append((slot.uri, why, getattr(slot.storage, "path", "")))
                continue
            del self.feeds[template]
            feed = Feed(len(self._durable), template, start)
            self._durable.append(feed)
            if resumed and template in feeds:
                feed.resume(feeds[template], files[feeds[template]["file"]])
            feed.begin()
        if others:
            self._warn_of(others, spider, resumed=resumed)

    def _take_up_files(
        self,
        record: dict[str, Any],
        pieces: dict[str, bytes],
        *,
        resumed: bool,
        accept: bool,
    ) -> dict[int, FeedFile]:
        """Finish the files of the last run; of a finished crawl only if need be."""
        lengths = {f["file"]: f["length"] for f in record.get("feeds", {}).values()}
        files = {}
        for number, state in enumerate(record.get("files", [])):
            piece = pieces.get(f"feed{number}", b"")
            if resumed or piece:
                length = lengths.get(number, state["written"])
                files[number] = FeedFile.resume(state, piece, length, accept=accept)
        return files

    def _slot_of(
        self, template: str, options: dict[str, Any], spider: Spider, batch_id: int
    ) -> FeedSlot:
        """Return the slot of a batch, as Scrapy makes it."""
        previous: Any = SimpleNamespace(batch_id=batch_id - 1)
        params = self._get_uri_params(spider, options["uri_params"], previous)
        # Before Scrapy 2.19 every percent sign is one of a parameter.
        apply = getattr(feedexport, "apply_uri_params", str.__mod__)
        return self._start_new_batch(
            batch_id=batch_id,
            uri=apply(template, params),
            feed_options=options,
            spider=spider,
            uri_template=template,
        )

    def _warn_of(
        self, others: list[tuple[str, str, str]], spider: Spider, *, resumed: bool
    ) -> None:
        """Refuse to spoil feeds that cannot be continued; say what they are worth."""
        for _, why, place in others:
            path = Path(place)
            if resumed and path.is_file() and path.stat().st_size:
                raise FeedError(
                    f"the feed {path} cannot be continued, for {why}: writing to it"
                    " would spoil or replace what earlier runs have left there. Move"
                    " it away (this run writes the items that are still to come into a"
                    " new one), or use JSON lines or CSV, which can be continued"
                )
        logger.warning(
            "Not safe against crashes: %(feeds)s. If the crawl is killed, items of"
            " pages that count as done may be missing there, and a file may end in the"
            " middle; after Ctrl-C or SIGTERM they are complete. Local files in JSON"
            " lines or CSV hold every item once, whatever happens",
            {"feeds": ", ".join(f"{uri} ({why})" for uri, why, _ in others)},
            extra={"spider": spider},
        )

    # Items

    def item_scraped(  # type: ignore[override]
        self,
        item: object,
        response: Any,  # noqa: ANN401 - a response, a failure or None
        spider: Spider,
    ) -> None:
        """Take an item; called by Scrapy."""
        outcomes = self._outcomes
        if outcomes is not None:
            outcome = self._outcome_of(response)
            outcome.add_item(start=response is None)
            for feed in self._durable:
                if feed.accepts(item):
                    outcomes.add_line(outcome, feed.number, feed.encode(item))
        if self.slots:
            super().item_scraped(item, spider)

    # Checkpoints, in this order: sync, gather, record and pieces, (commit), append

    def sync(self) -> None:
        """Make sure that the last pieces are on disk: the store may forget them."""
        for feed in self._durable:
            for file in feed.files:
                file.sync()
            for slot in feed.drop_full():
                self._announce(slot)

    def gather(self, lines: Iterator[tuple[int, bytes]]) -> bool:
        """Take lines for the next transaction; True if more of them are left.

        Then these must be committed without the rest of what their requests did.
        """
        size = 0
        # Files that are complete cannot be cut back to where a request began.
        limit = None if any(feed.batched for feed in self._durable) else MOST_GATHERED
        more = False
        for number, line in lines:
            self._durable[number].add(line)
            size += len(line)
            if limit is not None and size > limit:
                more = True
                break
        for feed in self._durable:
            feed.gather()
        return more

    def record(self) -> dict[str, Any]:
        """Return what the store has to keep: ``feeds`` by URI, and their ``files``.

        In ``feeds`` is how far they were when everything in them was settled.
        """
        files = [file for feed in self._durable for file in feed.files]
        feeds = {
            feed.template: {**feed.record(), "file": files.index(feed.begin())}
            for feed in self._durable
        }
        return {"feeds": feeds, "files": [file.state for file in files]}

    def pieces(self) -> dict[str, bytes]:
        """Return the pieces that the next commit must hold, by the file's number."""
        files = [file for feed in self._durable for file in feed.files]
        return {f"feed{n}": file.piece for n, file in enumerate(files) if file.piece}

    def append(self) -> None:
        """Write the pieces, which have been committed, to the files."""
        for feed in self._durable:
            for file in feed.files:
                file.append()

    # The end

    async def close_spider(self, spider: Spider) -> None:
        """Say what was stored; called by Scrapy when the scheduler has closed."""
        for feed in self._durable:
            slot = feed.slot
            if slot.itemcount or (slot.store_empty and slot.batch_id == 1):
                feed.begin().touch()
                self._announce(slot)
            feed.close()
        for sent in self._announced:
            await maybe_deferred_to_future(sent)
        await super().close_spider(spider)

    def _announce(self, slot: FeedSlot) -> None:
        """Tell the log, the stats and whoever listens that a file is complete."""
        logger.info(
            "Stored %(format)s feed (%(count)d items) in: %(uri)s",
            {"format": slot.format, "count": slot.itemcount, "uri": slot.uri},
            extra={"spider": slot.spider},
        )
        assert self.crawler.stats is not None  # noqa: S101 - it runs
        kind = type(slot.storage).__name__
        self.crawler.stats.inc_value(f"feedexport/success_count/{kind}")
        self._announced.append(
            send_signal(self.crawler, signals.feed_slot_closed, slot=slot)
        )
