"""WaitingFeed: a feed whose items wait in the journal until the crawl has finished."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

from bloomdupe.feeds.feed_format import without_secret
from bloomdupe.printable import logger_of
from bloomdupe.requests.values import unpack

if TYPE_CHECKING:
    from scrapy.extensions.feedexport import FeedSlot

    from bloomdupe.inside_scrapy.feed_exporter import FeedExporterAccess

logger = logger_of(__name__)


@dataclass
class WaitingFeed:
    """A feed that is written from the journal.

    The store keeps its ``uri``, ``items``, ``index`` and ``begin``, and no ``file``.
    """

    name: str
    """Its name in the store."""
    slot: FeedSlot
    """Scrapy's slot of its first file."""
    index: int
    """By which the journal names it."""
    begin: int = 0
    """The position in the journal at which the present round begins."""
    items: int = 0
    """Its items in this round, as of the last commit."""
    tried: bool = False
    """Whether its exporter was tried with an item of this run."""

    def try_exporter(self, access: FeedExporterAccess, item: bytes) -> None:
        """Export the first item of the run, and say so at once if that fails."""
        if self.tried:
            return
        self.tried = True
        try:
            exporter = access.new_exporter(self.slot, BytesIO())
            exporter.start_exporting()
            exporter.export_item(unpack(item))
            exporter.finish_exporting()
        except Exception:  # of any exporter in the settings
            logger.exception(
                "The exporter of the feed %(uri)s fails for its first item. The"
                " items are kept in the job, and exported when the crawl has finished:"
                " mend the exporter",
                {"uri": self.name},
                extra={"spider": self.slot.spider},
            )

    def record(self, added: int) -> dict[str, Any]:
        """Return the record of the feed for the store, with so many new items."""
        return {
            "uri": without_secret(self.slot.uri),
            "items": self.items + added,
            "file": None,
            "index": self.index,
            "begin": self.begin,
        }

    def say_kept(self) -> None:
        """Say that it waits for the end of the crawl."""
        if self.items:
            logger.info(
                "Kept %(format)s feed (%(count)d items) in the job; it is stored in"
                " %(uri)s when the crawl has finished",
                {
                    "format": self.slot.format,
                    "count": self.items,
                    "uri": without_secret(self.slot.uri),
                },
                extra={"spider": self.slot.spider},
            )
