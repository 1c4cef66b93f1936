"""SharedFeeds: items of a shared crawl, as lines that are settled with their pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.exporters import JsonLinesItemExporter
from scrapy.utils.conf import build_component_list
from scrapy.utils.misc import load_object

from bloomdupe.errors import BloomDupeError, FeedError
from bloomdupe.feeds.exporter import FeedExporter
from bloomdupe.feeds.feed import Feed, Known
from bloomdupe.feeds.feed_format import can_be_cut

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler
    from scrapy.extensions.feedexport import FeedSlot

    from bloomdupe.crawl.leases.outcomes import Line

__all__ = ["SharedFeeds", "feed_names"]


class SharedFeeds:
    """Takes the feeds from Scrapy: no worker writes a file.

    ``put`` gets the lines of an item and its response, ``fail`` an error for which the
    crawl must stop. Raises :class:`~bloomdupe.errors.FeedError` for a feed in a format
    other than JSON lines.
    """

    def __init__(
        self,
        crawler: Crawler,
        put: Callable[[Any, list[Line]], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._put = put
        self._fail = fail
        exporter = crawler.get_extension(FeedExporter)
        self._feeds = [] if exporter is None else _taken_from(exporter)
        crawler.signals.connect(self._scraped, signals.item_scraped)

    @property
    def names(self) -> list[str]:
        """Names of the feeds: their URIs, without secrets and times."""
        return [feed.name for feed in self._feeds]

    def _scraped(self, item: object, response: Any) -> None:  # noqa: ANN401
        lines: list[Line] = []
        try:
            self._encode(item, self._feeds, lines)
        except (BloomDupeError, MemoryError) as error:
            self._fail(error)
        finally:
            self._put(response, lines)

    def _encode(self, item: object, feeds: list[Feed], lines: list[Line]) -> None:
        for index, feed in enumerate(feeds):
            try:
                if feed.accepts(item):
                    lines.append((feed.number, feed.encode(item)))
            except Exception:
                # The remaining feeds get the item all the same.
                self._encode(item, feeds[index + 1 :], lines)
                raise


def feed_names(crawler: Crawler) -> list[str]:
    """Return the names of the feeds that workers with these settings have.

    Raises :class:`~bloomdupe.errors.FeedError` for a feed that they cannot have.
    """
    enabled = build_component_list(crawler.settings.getwithbase("EXTENSIONS"))
    if FeedExporter not in map(load_object, enabled):
        return []
    try:
        exporter = FeedExporter(crawler)
    except NotConfigured:
        return []
    return [feed.name for feed in _taken_from(exporter)]


def _taken_from(exporter: FeedExporter) -> list[Feed]:
    """Take the feeds from Scrapy; their order gives them their numbers."""
    exporter.check()
    feeds: list[Feed] = []
    for template, options in exporter.feeds.items():
        name = exporter.name_of(template, options)
        _check(exporter.new_slot(template, options, 1), name)
        feeds.append(Feed(len(feeds), template, options, exporter, Known(name)))
    exporter.feeds.clear()
    return feeds


def _check(slot: FeedSlot, name: str) -> None:
    """Refuse a feed unless its items are lines that may be in any order."""
    exporter = slot.exporters[slot.format]
    options = slot.feed_options
    if (
        not issubclass(exporter, JsonLinesItemExporter)
        or not can_be_cut(exporter)
        or options.get("batch_item_count")
        or options.get("postprocessing")
    ):
        raise FeedError(
            f"the feed {name}: a crawl with BLOOMDUPE_REDIS_URL has feeds in the format"
            " jsonlines only, without batches and postprocessing; `bloomdupe collect`"
            " writes them"
        )
