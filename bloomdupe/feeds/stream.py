"""StreamFeeds: the feeds of a crawl on Redis; their items are lines of its output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy import signals
from scrapy.exceptions import NotConfigured

from bloomdupe.errors import BloomDupeError
from bloomdupe.feeds.exporter import FeedExporter
from bloomdupe.feeds.feed import name_of
from bloomdupe.feeds.journal import ITEM, Journal
from bloomdupe.requests.values import pack_item
from bloomdupe.store.participant import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scrapy.crawler import Crawler


MOST_BYTES = 1 << 20
"""Bytes of a line of the output, unless an item is larger."""
MOST_ITEMS = 1_000
"""Items of a line: a script of Redis takes no more than some thousand arguments."""


class StreamFeed(NamedTuple):
    """A feed with items of workers, written by ``collect``."""

    name: str
    accepts: Callable[[object], bool]


class StreamFeeds:
    """Has the interface of :class:`~bloomdupe.feeds.exporter.FeedExporter`.

    It takes the feeds from Scrapy: no worker writes a file. ``dump`` packs an item,
    ``put`` gets it for the output and its response, ``fail`` an error for which the
    crawl must stop. An item is as the journal of a job has it, with the numbers of its
    feeds. A line of the output has items of several pages, as the fields ``0``, ``1``
    and so on.
    """

    parameters: Sequence[str] = ()
    held_back: Sequence[str] = ()

    def __init__(
        self,
        crawler: Crawler,
        put: Callable[[Any, list[tuple[int, bytes]]], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._put = put
        self._fail = fail
        exporter = crawler.get_extension(FeedExporter)
        self.feeds = [] if exporter is None else _taken_from(exporter)
        """In the order of their numbers."""
        crawler.signals.connect(self._scraped, signals.item_scraped)

    def sync(self) -> None:
        """Do nothing: there is no file."""

    append = sync

    def end(self, *, finished: bool) -> None:
        """Do nothing: there is no file."""

    def prepare(self, lines: Iterable[tuple[int, bytes]]) -> Part:
        """Return the part that adds these items to the output."""
        entries: list[list[bytes]] = []
        size = MOST_BYTES
        for _, data in lines:
            if size + len(data) > MOST_BYTES or len(entries[-1]) >= 2 * MOST_ITEMS:
                entries.append([])
                size = 0
            entries[-1] += (b"%d" % (len(entries[-1]) // 2), data)
            size += len(data)
        return Part(output=entries)

    def _scraped(self, item: object, response: Any) -> None:  # noqa: ANN401
        accepting: list[int] = []
        lines: list[tuple[int, bytes]] = []
        failure = None
        for number, feed in enumerate(self.feeds):
            try:
                if feed.accepts(item):
                    accepting.append(number)
            except Exception as error:  # noqa: BLE001 - of any filter in the settings
                failure = error
        try:
            if accepting:
                data = Journal.packed(accepting, pack_item(item))
                lines.append((ITEM, data))
        except (BloomDupeError, MemoryError) as error:
            self._fail(error)
        finally:
            self._put(response, lines)
        if failure is not None:
            raise failure


def feed_names(crawler: Crawler) -> list[str]:
    """Return the names of the feeds that workers with these settings have.

    They are their URIs, without secrets and times.
    """
    if not FeedExporter.is_enabled(crawler):
        return []
    try:
        exporter = FeedExporter(crawler)
    except NotConfigured:
        return []
    return [feed.name for feed in _taken_from(exporter)]


def _taken_from(exporter: FeedExporter) -> list[StreamFeed]:
    """Take the feeds from Scrapy; their order gives them their numbers."""
    feeds = [
        StreamFeed(
            name_of(exporter, template, options),
            exporter.new_slot(template, options, 1).filter.accepts,
        )
        for template, options in exporter.feeds.items()
    ]
    exporter.feeds.clear()
    return feeds
