"""SpooledFeed: a feed that is kept in the job until the crawl has finished."""

from __future__ import annotations

import os
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.engines.on_redis.going.feeds.content import Content
from bloomdupe.crawl.engines.on_redis.going.feeds.old_delivery import OldDelivery
from bloomdupe.crawl.engines.on_redis.going.feeds.old_feed import OldFeed
from bloomdupe.crawl.engines.on_redis.going.feeds.old_feed_format import (
    OldFormat,
    can_be_cut,
    only_compresses,
)
from bloomdupe.crawl.engines.on_redis.going.feeds.old_file import OldFeedFile
from bloomdupe.crawl.engines.on_redis.going.feeds.old_uri import without_secret
from bloomdupe.crawl.engines.on_redis.going.feeds.spool import Items
from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.extensions.feedexport import FeedSlot

    from bloomdupe.crawl.engines.on_redis.going.feeds.draft import Complete
    from bloomdupe.crawl.engines.on_redis.going.feeds.old_feed import (
        OldFeedBatch,
        OldKnown,
    )
    from bloomdupe.crawl.engines.on_redis.going.feeds.spool import Spool
    from bloomdupe.inside_scrapy.feed_exporter import FeedExporterAccess

logger = logger_of(__name__)


class SpooledFeed(OldFeed):
    """A feed that is delivered when the crawl, or the batch, is complete.

    It is for a storage that must have the whole file at once, and for an exporter or
    plugins that cannot be interrupted. Its file in the spool holds the output of the
    exporter, before any compressor. If the exporter does not write each item
    independently, or a plugin processes its output, the file holds the items themselves
    (:class:`Items`). The store keeps, besides the record of all feeds:

    ``spool``      beginning of the names of its files
    ``delivered``  size of the present file when it was last delivered; 0: never
    """

    def __init__(
        self,
        number: int,
        template: str,
        options: dict[str, Any],
        access: FeedExporterAccess,
        known: OldKnown,
        spool: Spool,
    ) -> None:
        self._spool = spool
        self._tried = False
        record = known.record or {}
        self._token = record.get("spool") or os.urandom(6).hex()
        self.delivered: int = record.get("delivered", 0)
        super().__init__(number, template, options, access, known)

    def record(self, batch: int, uri: str, items: int) -> dict[str, Any]:
        """Return the record for the store, without the number of the file."""
        record = super().record(batch, uri, items)
        return {**record, "spool": self._token, "delivered": self.delivered}

    def new_file(self, batch: OldFeedBatch) -> OldFeedFile:
        """Return the file of a batch that has no file yet."""
        path = self._spool.place(f"{self._token}.{batch.slot.batch_id}")
        content = Content.begin(str(path), path, overwrite=False)
        return OldFeedFile(content, private=True)

    def deliveries(self, complete: Iterable[Complete]) -> list[OldDelivery]:
        """Return the deliveries of complete batches that were not delivered before."""
        return [
            OldDelivery(
                self.name,
                without_secret(slot.uri),
                slot.batch_id,
                items,
                Path(content.path).name,
                content.size,
                isinstance(self.format, OldFormat),
            )
            for slot, items, content in complete
            if content.size != self.delivered
        ]

    def _new_format(self, slot: FeedSlot) -> OldFormat | Items:
        if can_be_cut(slot.exporters[slot.format]) and only_compresses(slot):
            return super()._new_format(slot)
        return Items(partial(self._dumped, slot))

    def _dumped(self, slot: FeedSlot, item: object) -> bytes:
        """Return an item as bytes; try the exporter with the first item of the run."""
        data = self._spool.dump(item)
        if not self._tried:
            self._tried = True
            try:
                exporter = self._new_exporter(slot, BytesIO())
                exporter.start_exporting()
                exporter.export_item(self._spool.load(data))
                exporter.finish_exporting()
            except Exception:  # of any exporter in the settings
                logger.exception(
                    "The exporter of the feed %(uri)s fails for its first item. The"
                    " items are kept in the job, and exported when the crawl, or the"
                    " batch, is complete: mend the exporter",
                    {"uri": self.name},
                    extra={"spider": slot.spider},
                )
        return data

    def _head_for(self, _: Content, /) -> bytes:
        return self.format.head

    @property
    def _compresses(self) -> bool:
        return False  # only the delivery compresses
