"""StreamFeeds: the feeds of a crawl on Redis; their items are lines of its output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.feeds.exporter import FeedExporter
from bloomdupe.feeds.feed import name_of
from bloomdupe.feeds.waiting import WaitingFeed
from bloomdupe.store.participant import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scrapy.crawler import Crawler


MOST_BYTES = 1 << 20
"""Bytes of a line of the output, unless an item is larger."""
MOST_ITEMS = 1_000
"""Items of a line: a script of Redis takes no more than some thousand arguments."""


class StreamFeeds:
    """Has the interface of :class:`~bloomdupe.feeds.exporter.FeedExporter`.

    All feeds wait, for ``collect``: no worker writes a file. ``put`` gets an item for
    the output and its response, ``fail`` an error for which the crawl must stop. An
    item is as the journal of a job has it. A line of the output has items of several
    pages, as the fields ``0``, ``1`` and so on.
    """

    parameters: Sequence[str] = ()
    held_back: Sequence[str] = ()

    def __init__(
        self,
        crawler: Crawler,
        put: Callable[[Any, list[tuple[int, bytes]]], None],
        fail: Callable[[Exception], None],
    ) -> None:
        exporter = FeedExporter.of(crawler)
        exporter.take_part(put, fail, _waiting(exporter))

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


def feed_names(crawler: Crawler) -> list[str]:
    """Return the names of the feeds that workers with these settings have.

    They are their URIs, without secrets and times.
    """
    return [feed.name for feed in _waiting(FeedExporter.early(crawler)).values()]


def _waiting(exporter: FeedExporter) -> dict[str, WaitingFeed]:
    """Return the feeds of Scrapy; their order gives them their numbers.

    Their exporters are tried by ``collect`` only.
    """
    return {
        template: WaitingFeed(
            name_of(exporter, template, options),
            exporter.new_slot(template, options, 1),
            number,
            tried=True,
        )
        for number, (template, options) in enumerate(exporter.feeds.items())
    }
