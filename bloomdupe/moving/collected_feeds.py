"""CollectedFeeds: the feeds of a shared crawl, written by a process of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import NotConfigured

from bloomdupe.errors import FeedChangedError, FeedError, StoreMismatchError
from bloomdupe.feeds.delivery import WaitingFeed
from bloomdupe.feeds.exporter import FeedExporter
from bloomdupe.feeds.feed_format import local_path
from bloomdupe.feeds.feed_job import FeedJob
from bloomdupe.feeds.journal import ITEM, Journal
from bloomdupe.feeds.stored_feeds import StoredFeeds
from bloomdupe.feeds.uri import parameters, without_secret
from bloomdupe.inside_scrapy.private_names import check_names
from bloomdupe.moving.collection import RECORD
from bloomdupe.moving.delivering import not_here
from bloomdupe.moving.named_feeds import crawler_with
from bloomdupe.printable import logger_of
from bloomdupe.requests.values import unpack

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from scrapy.crawler import Crawler
    from scrapy.extensions.feedexport import FeedSlot
    from scrapy.settings import Settings
    from typing_extensions import Self

    from bloomdupe.feeds.feed import Feed
    from bloomdupe.moving.collection import Collection
    from bloomdupe.moving.stream_output import StreamOutput

logger = logger_of(__name__)


class CollectedFeeds(FeedExporter):
    """Writes the feeds of a shared crawl as a crawl with a ``JOBDIR`` writes its own.

    Relative paths begin in ``directory``.
    """

    def __init__(self, crawler: Crawler, directory: Path) -> None:
        super().__init__(crawler)
        self.here = directory
        self.failed = False
        """Whether an exporter has failed for an item, or a delivery."""
        self.undelivered = False
        """Whether a delivery has failed."""
        self.by_number: list[Feed | WaitingFeed] = []
        """All feeds, in the order of the crawl."""
        self.before: list[int] = []
        """The items that each had when this process began."""

    @classmethod
    def open(
        cls,
        settings: Settings | None,
        output: StreamOutput,
        collection: Collection,
        named: Sequence[str] = (),
    ) -> Self:
        """Open the feeds of a crawl, see :func:`~.named_feeds.crawler_with`.

        Raises :class:`~bloomdupe.errors.StoreMismatchError` for feeds that cannot be
        collected, and :class:`~bloomdupe.errors.FeedError` for those that cannot be
        written.
        """
        check_names()
        crawler = crawler_with(output.feeds, settings, output.spider, named)
        try:
            feeds = cls(crawler, collection.directory)
        except NotConfigured as error:
            raise FeedError(
                f"the feeds of {output.shown} cannot be written here, see above: run"
                " this in the folder of the project, and install what its workers have"
                if output.feeds
                else f"{output.shown} has no feeds, so there is nothing to collect"
            ) from error
        feeds._begin(collection)
        return feeds

    def _begin(self, collection: Collection) -> None:
        if any(map(parameters, self.feeds)):
            raise StoreMismatchError(f"a feed lacks parameters: {[*self.feeds]}")
        if collection.is_new:
            self._check_places()
        left = StoredFeeds(
            collection.entries,
            collection.store,
            resumed=not collection.is_new,
            anew="collect into another directory",
        )
        self.restore(FeedJob(not_here, not_here, collection.store), left)
        self.by_number = [*self.taken.values()]
        self.before = [feed.items for feed in self.by_number]

    def _check_places(self) -> None:
        """Refuse files that are there and were not collected."""
        for template, options in self.feeds.items():
            place = local_path(self.new_slot(template, options, 1), self.here)
            if place is None or options.get("overwrite"):
                continue
            if place.exists() and place.stat().st_size:
                raise FeedChangedError(
                    f"{place} is there, and was not collected by bloomdupe: there is no"
                    f" {RECORD} in {self.here}. Move it away, or collect into"
                    " another directory"
                )

    def place_of(self, feed: Feed | WaitingFeed) -> tuple[str, int]:
        """Return place and size of a feed's file, the first if there are more."""
        place = local_path(feed.slot, self.here)
        if place is None:
            return without_secret(feed.slot.uri), 0
        return str(place), place.stat().st_size if place.exists() else 0

    def lines_of(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return what an item of the output adds to the feeds.

        An appended feed lacks an item for which its exporter fails, which is logged.
        Raises :class:`ValueError` for data that are no item for these feeds, or
        :class:`~bloomdupe.errors.UnserializableError`.
        """
        numbers, packed = Journal.unpacked(data)
        if not numbers or max(numbers) >= len(self.by_number):
            raise ValueError("it has no feed")
        item = unpack(packed)
        lines, waiting = [], []
        for number in numbers:
            feed = self.by_number[number]
            if isinstance(feed, WaitingFeed):
                waiting.append(feed.index)
                continue
            try:
                lines.append((feed.number, feed.encode(item)))
            except Exception as error:  # noqa: BLE001 - of any exporter
                self.failed = True
                logger.error(  # noqa: TRY400 - one line
                    "The feed %(uri)s lacks an item, because its exporter fails for"
                    " it with %(error)r: %(item)s",
                    {"uri": feed.name, "error": error, "item": _short(item)},
                )
        if waiting:
            lines.append((ITEM, Journal.packed(waiting, packed)))
        return lines

    async def deliver(self) -> None:
        """Write the feeds that wait for the end of the crawl, if it has come.

        Raises :class:`~bloomdupe.errors.BloomDupeError` if that cannot be recorded.
        """
        assert self._waiting is not None  # noqa: S101 - they are restored
        if self._finished and not await self._waiting.deliver():
            self.failed = self.undelivered = True

    async def tell(self, slot: FeedSlot, stored: bool, *, quiet: bool = False) -> None:
        """Do nothing: no extension listens here."""

    def close(self) -> None:
        """Release the files; nothing is written."""
        for feed in self.durable:
            feed.close()
        if self._left is not None:
            self._left.close()


def _short(item: object) -> str:
    text = repr(item)
    return text if len(text) <= 200 else f"{text[:200]}..."
