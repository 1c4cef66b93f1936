"""StreamFeeds: the feeds of a crawl on Redis; their items are lines of its output."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import NotConfigured

from bloomdupe.errors import BloomDupeError
from bloomdupe.feeds.exporter import FeedExporter
from bloomdupe.feeds.feed import name_of
from bloomdupe.feeds.feed_format import options_of
from bloomdupe.feeds.journal import ITEM, Journal
from bloomdupe.store.participant import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scrapy.crawler import Crawler

    from bloomdupe.store.batch import Batch

MOST_BYTES = 1 << 20
"""Bytes of a line of the output, unless an item is larger."""

FEED_OPTIONS = "feed_options"
OBJECTS = "objects"
JSON_LINES: dict[str, Any] = {
    "format": "jsonlines",
    "fields": None,
    "encoding": None,
    "indent": 0,
    "item_export_kwargs": {},
    "postprocessing": [],
    "overwrite": False,
    "store_empty": True,
    "batch_item_count": 0,
}
"""The options of a feed of which nothing was recorded."""


class StreamFeed:
    """A feed with items of workers, written by ``collect``.

    Raises :class:`KeyError` if the spider lacks a parameter of the URI.
    """

    def __init__(
        self, template: str, options: dict[str, Any], access: FeedExporter
    ) -> None:
        self.name = name_of(access, template, options)
        self.accepts = access.new_slot(template, options, 1).filter.accepts
        self._options = options

    @property
    def shared_options(self) -> dict[str, Any]:
        """Return the options that a process without these settings needs, as JSON.

        Options that are those of ``JSON_LINES`` are left out. ``objects`` says that
        the options hold objects, so that only the settings have them.
        """
        given, plain = self._options, options_of(self._options)
        found = {
            **plain,
            "encoding": given.get("encoding"),
            "overwrite": bool(given.get("overwrite")),
            "store_empty": bool(given["store_empty"]),
            "batch_item_count": int(given["batch_item_count"] or 0),
            OBJECTS: not _is_plain(given, plain),
        }
        left_out = {**JSON_LINES, OBJECTS: False}
        return {name: found[name] for name in found if found[name] != left_out[name]}


def _is_plain(given: dict[str, Any], plain: dict[str, Any]) -> bool:
    """Whether JSON returns the options as they were given."""
    try:
        known = json.loads(json.dumps(given.get("item_export_kwargs") or {}))
    except (TypeError, ValueError):
        return False
    return bool(
        known == plain["item_export_kwargs"]
        and list(given.get("postprocessing", ())) == plain["postprocessing"]
        and given.keys() <= _PLAIN_OPTIONS
    )


_PLAIN_OPTIONS = {*JSON_LINES, "item_classes", "item_filter", "uri_params"}
"""Options that are recorded, or that only workers need."""


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
        dump: Callable[[Any], bytes],
        put: Callable[[Any, list[tuple[int, bytes]]], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._put = put
        self._fail = fail
        self._dump = dump
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
            if size + len(data) > MOST_BYTES:
                entries.append([])
                size = 0
            entries[-1] += (b"%d" % (len(entries[-1]) // 2), data)
            size += len(data)

        def write(batch: Batch) -> None:
            output: Any = batch  # of a store on Redis
            for entry in entries:
                output.add_line(entry)

        return Part(write=write)

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
                data = Journal.packed(accepting, self._dump(item))
                lines.append((ITEM, data))
        except (BloomDupeError, MemoryError) as error:
            self._fail(error)
        finally:
            self._put(response, lines)
        if failure is not None:
            raise failure


def stream_feeds_of(crawler: Crawler) -> list[StreamFeed]:
    """Return the feeds that workers with these settings have."""
    if not FeedExporter.is_enabled(crawler):
        return []
    try:
        exporter = FeedExporter(crawler)
    except NotConfigured:
        return []
    return _taken_from(exporter)


def identity_of(feeds: Sequence[StreamFeed]) -> dict[str, Any]:
    """Return the feeds in the identity of a crawl.

    ``feeds`` are their names: their URIs, without secrets and times. ``feed_options``
    are their :attr:`StreamFeed.shared_options`.
    """
    return {
        "feeds": [feed.name for feed in feeds],
        FEED_OPTIONS: [feed.shared_options for feed in feeds],
    }


def _taken_from(exporter: FeedExporter) -> list[StreamFeed]:
    """Take the feeds from Scrapy; their order gives them their numbers."""
    feeds = [
        StreamFeed(template, options, exporter)
        for template, options in exporter.feeds.items()
    ]
    exporter.feeds.clear()
    return feeds
