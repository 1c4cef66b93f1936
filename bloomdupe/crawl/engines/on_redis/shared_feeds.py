"""SharedFeeds: items of a shared crawl, which are settled with their pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import NotConfigured

from bloomdupe.crawl.engines.on_redis.going.feeds.old_feed import encode
from bloomdupe.crawl.engines.on_redis.going.feeds.shared_feed import SharedFeed
from bloomdupe.errors import BloomDupeError
from bloomdupe.feeds.exporter import FeedExporter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy.crawler import Crawler

    from bloomdupe.crawl.leases.outcomes import Line
    from bloomdupe.requests.serializer import Serializer

__all__ = ["FEED_OPTIONS", "SharedFeeds", "identity_of", "shared_feeds_of"]

FEED_OPTIONS = "feed_options"


class SharedFeeds:
    """Takes the feeds from Scrapy: no worker writes a file.

    ``put`` gets the lines of an item and its response, ``fail`` an error for which the
    crawl must stop.
    """

    def __init__(
        self,
        crawler: Crawler,
        serializer: Serializer,
        put: Callable[[Any, list[Line]], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._put = put
        self._fail = fail
        exporter = crawler.get_extension(FeedExporter)
        self.feeds = [] if exporter is None else _taken_from(exporter, serializer)
        """In the order of their numbers."""
        crawler.signals.connect(self._scraped, signals.item_scraped)

    def _scraped(self, item: object, response: Any) -> None:  # noqa: ANN401
        lines: list[Line] = []
        try:
            encode(item, self.feeds, lines)
        except (BloomDupeError, MemoryError) as error:
            self._fail(error)
        finally:
            self._put(response, lines)


def shared_feeds_of(crawler: Crawler, serializer: Serializer) -> list[SharedFeed]:
    """Return the feeds that workers with these settings have."""
    if not FeedExporter.is_enabled(crawler):
        return []
    try:
        exporter = FeedExporter(crawler)
    except NotConfigured:
        return []
    return _taken_from(exporter, serializer)


def identity_of(feeds: Sequence[SharedFeed]) -> dict[str, Any]:
    """Return the feeds in the identity of a crawl.

    ``feeds`` are their names: their URIs, without secrets and times. ``feed_options``
    are their :attr:`SharedFeed.shared_options`.
    """
    return {
        "feeds": [feed.name for feed in feeds],
        FEED_OPTIONS: [feed.shared_options for feed in feeds],
    }


def _taken_from(
    exporter: Any,  # noqa: ANN401 - as the feed needs it
    serializer: Serializer,
) -> list[SharedFeed]:
    """Take the feeds from Scrapy; their order gives them their numbers."""
    feeds = [
        SharedFeed(number, template, options, exporter, serializer.dump_item)
        for number, (template, options) in enumerate(exporter.feeds.items())
    ]
    exporter.feeds.clear()
    return feeds
