"""OneFeed: runs of a crawl that has one feed, a local file in JSON lines."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from bloomdupe.feeds.appended_feed import AppendedFeed
from bloomdupe.feeds.stored_feeds import StoredFeeds

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS: dict[str, Any] = {
    "format": "jsonlines",
    "fields": None,
    "item_export_kwargs": {},
    "batch_item_count": 0,
}


class OneFeed:
    """A run that goes on from the record of the last commit, in ``job`` beside a file.

    No item is encoded: the lines are given.
    """

    def __init__(self, place: Path, record: dict[str, Any] | None = None) -> None:
        store = place.parent / "job" / "bloomdupe"
        self.left = StoredFeeds(record or {}, store, resumed=True)
        slot: Any = SimpleNamespace(
            uri="f",
            feed_options=OPTIONS,
            store_empty=False,
            itemcount=0,
        )
        self.feed = AppendedFeed("f", slot, 0, place, self.left.lines)

    def go_on(self) -> None:
        """Compare the file with the record, and write what it lacks."""
        self.left.check([self.feed])
        self.left.go_on([self.feed])

    def commit(self, *lines: bytes) -> dict[str, Any]:
        """Commit lines, which :meth:`AppendedFeed.append` writes; return the record."""
        self.feed.begin()
        self.left.lines.begin(anew=True)
        for line in lines:
            self.feed.add(line)
        feeds = {"f": self.feed.seal(finishing=False)}
        record = {"feeds": feeds, "lines": self.left.lines.seal()}
        self.feed.done()
        self.left.lines.done()
        return record

    def write(self, *lines: bytes) -> None:
        """Commit lines, and write them to the file."""
        self.commit(*lines)
        self.feed.append()
