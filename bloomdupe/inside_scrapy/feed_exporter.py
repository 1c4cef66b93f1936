"""FeedExporterAccess: private names of Scrapy's feed exporter.

Scrapy opens a file when a feed gets its first item, and writes each item at once. This
package writes later, and to more than one file. So it needs the slots of the feed
exporter without their files.
"""

from __future__ import annotations

from copy import copy
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from scrapy.extensions import feedexport
from scrapy.utils.misc import load_object

if TYPE_CHECKING:
    from typing import IO

    from scrapy.crawler import Crawler
    from scrapy.exporters import BaseItemExporter
    from scrapy.extensions.feedexport import FeedSlot

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class FeedExporterAccess(feedexport.FeedExporter):
    """Scrapy's feed exporter, with access to each of its feeds."""

    def __init__(self, crawler: Crawler) -> None:
        self.here = Path.cwd()
        """The directory in which relative paths of feeds begin. A spider may change the
        working directory later."""
        super().__init__(crawler)

    def new_slot(
        self,
        template: str,
        options: dict[str, Any],
        batch_id: int = 1,
        time: datetime | None = None,
        batch_time: datetime | None = None,
    ) -> FeedSlot:
        """Return the slot of a batch, as Scrapy makes it; no file is opened.

        Its URI has these times, now by default. Raises :class:`KeyError` if the spider
        lacks a parameter of it.
        """
        spider = self.crawler.spider
        assert spider is not None  # noqa: S101 - a crawl is on
        time = time or datetime.now(tz=timezone.utc)
        params = self.uri_params(options, batch_id, time, batch_time or time)
        # Before Scrapy 2.19 every percent sign begins a parameter.
        apply = getattr(feedexport, "apply_uri_params", str.__mod__)
        return self._start_new_batch(
            batch_id=batch_id,
            uri=str(apply(template, params)),
            feed_options=options,
            spider=spider,
            uri_template=template,
        )

    def uri_params(
        self,
        options: dict[str, Any],
        batch_id: int = 1,
        time: datetime = _EPOCH,
        batch_time: datetime = _EPOCH,
    ) -> dict[str, Any]:
        """Return the parameters for the URI of a batch, as Scrapy makes them."""
        spider = self.crawler.spider
        assert spider is not None  # noqa: S101 - a crawl is on
        params: dict[str, Any] = {name: getattr(spider, name) for name in dir(spider)}
        params["time"] = time.replace(microsecond=0).isoformat().replace(":", "-")
        params["batch_time"] = batch_time.isoformat().replace(":", "-")
        params["batch_id"] = batch_id
        function = options["uri_params"]
        changed = load_object(function)(params, spider) if function else None
        return params if changed is None else changed

    def file_of(self, slot: FeedSlot) -> IO[bytes]:
        """Return the file of a slot for its storage; plugins have finished with it."""
        return self._get_file(slot)


def add_extension(crawler: Crawler, extension: object) -> None:
    """Let ``get_extension`` find an extension that the settings do not have."""
    manager = crawler.extensions
    assert manager is not None  # noqa: S101 - Scrapy makes it before the engine
    manager.middlewares += (extension,)


def started_exporter(slot: FeedSlot, file: IO[bytes]) -> BaseItemExporter:
    """Return an exporter of a slot that has started to write to a file, no plugins."""
    storage: Any = SimpleNamespace(open=lambda _: file)
    slot = copy(slot)
    slot.storage, slot.feed_options = storage, {**slot.feed_options}
    slot.feed_options.pop("postprocessing", None)
    slot.start_exporting()
    assert slot.exporter is not None  # noqa: S101 - it has started
    return slot.exporter
