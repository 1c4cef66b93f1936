"""WaitingFeeds: the feeds that are written from the journal, while items come."""

from __future__ import annotations

from collections import Counter
from io import BytesIO
from typing import TYPE_CHECKING, Any

from bloomdupe.feeds.delivery import Deliveries, WaitingFeed
from bloomdupe.feeds.journal import ITEM, Journal
from bloomdupe.feeds.uri import without_secret
from bloomdupe.printable import logger_of
from bloomdupe.requests.values import pack_item, unpack
from bloomdupe.store.system_errors import explained

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy.extensions.feedexport import FeedSlot

    from bloomdupe.feeds.feed_job import FeedJob
    from bloomdupe.feeds.stored_feeds import StoredFeeds
    from bloomdupe.inside_scrapy.feed_exporter import FeedExporterAccess

logger = logger_of(__name__)


class WaitingFeeds:
    """Encodes items for the journal, which the feeds get when the crawl has finished.

    An item is there once, whatever the number of its feeds. The store keeps, for each
    feed, its ``uri``, the number of its ``items``, and ``index`` and ``begin`` of
    :class:`~bloomdupe.feeds.delivery.WaitingFeed`.
    """

    number = ITEM

    def __init__(
        self,
        access: FeedExporterAccess,
        job: FeedJob,
        left: StoredFeeds,
        tell: Callable[[FeedSlot, bool], Awaitable[None]],
    ) -> None:
        self._access, self._job, self._left = access, job, left
        self.journal = left.journal
        self._deliveries = Deliveries(access, left, tell)
        self._feeds: list[WaitingFeed] = []
        self._accepting: list[WaitingFeed] = []
        self._new = Counter[int]()
        self._is_anew = not left.resumed and not left.owing()
        if self._is_anew:
            self.journal.begin(anew=True)

    @property
    def names(self) -> list[str]:
        """The names of the feeds."""
        return [feed.name for feed in self._feeds]

    def take(self, name: str, slot: FeedSlot) -> WaitingFeed:
        """Take a feed of this run."""
        feed = WaitingFeed(name, slot, *self._left.take_waiting(name))
        self._feeds.append(feed)
        return feed

    def warn(self) -> None:
        """Say which feeds lack items that no feed of this run can bring to them."""
        for name, record in self._left.owing().items():
            logger.warning(
                "The feed %(uri)s (%(items)d items) is not delivered, because this"
                " run has no such feed: it stays in %(place)s until a run has it",
                {
                    "uri": name,
                    "items": record["items"],
                    "place": self.journal.place,
                },
                extra={"spider": self._access.crawler.spider},
            )

    # Items

    def accepts(self, item: object) -> bool:
        """Whether a feed gets this item."""
        self._accepting = [f for f in self._feeds if f.slot.filter.accepts(item)]
        return bool(self._accepting)

    def encode(self, item: object) -> bytes:
        """Return an item as bytes for the journal; raises :class:`UnserializableError`.

        Each exporter is tried with the first item of the run.
        """
        data = pack_item(item)
        for feed in self._accepting:
            if not feed.tried:
                feed.tried = True
                self._try(feed, data)
        return Journal.packed((feed.index for feed in self._accepting), data)

    def _try(self, feed: WaitingFeed, data: bytes) -> None:
        try:
            exporter = self._access.new_exporter(feed.slot, BytesIO())
            exporter.start_exporting()
            exporter.export_item(unpack(data))
            exporter.finish_exporting()
        except Exception:  # of any exporter in the settings
            logger.exception(
                "The exporter of the feed %(uri)s fails for its first item. The"
                " items are kept in the job, and exported when the crawl has finished:"
                " mend the exporter",
                {"uri": feed.name},
                extra={"spider": feed.slot.spider},
            )

    # Checkpoints

    def begin(self) -> None:
        """Begin with the next checkpoint; what was added for another is taken back."""
        self.journal.begin(anew=self._is_anew)
        self._new.clear()

    def add(self, data: bytes) -> None:
        """Add a settled item."""
        self.journal.add(ITEM, data)
        self._new.update(Journal.unpacked(data)[0])

    def records(self) -> dict[str, Any]:
        """Return the records of the feeds for the store, by name."""
        return {
            feed.name: {
                "uri": without_secret(feed.slot.uri),
                "items": feed.items + self._new[feed.index],
                "file": None,
                "index": feed.index,
                "begin": feed.begin,
            }
            for feed in self._feeds
        }

    def done(self) -> None:
        """Note that all this is committed."""
        for feed in self._feeds:
            feed.items += self._new[feed.index]
        self.journal.done()
        self._is_anew = False

    # The end

    async def deliver(self) -> bool:
        """Bring all items to the feeds; return whether all went well.

        Raises :class:`~bloomdupe.errors.BloomDupeError` if that cannot be recorded.
        """
        place = self._left.directory
        with explained(f"cannot write feeds from {place}", place):
            return not self._feeds or await self._deliveries.deliver(self._feeds)

    def say_kept(self) -> None:
        """Say which feeds wait for the end of the crawl."""
        for feed in self._feeds:
            if feed.items:
                logger.info(
                    "Kept %(format)s feed (%(count)d items) in the job; it is stored in"
                    " %(uri)s when the crawl has finished",
                    {
                        "format": feed.slot.format,
                        "count": feed.items,
                        "uri": without_secret(feed.slot.uri),
                    },
                    extra={"spider": feed.slot.spider},
                )
