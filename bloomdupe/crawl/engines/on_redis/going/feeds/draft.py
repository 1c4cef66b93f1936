"""OldDraft: the next commit of a feed, which does not change the feed before."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from scrapy.extensions.feedexport import FeedSlot

    from bloomdupe.crawl.engines.on_redis.going.feeds.content import Content
    from bloomdupe.crawl.engines.on_redis.going.feeds.old_feed import (
        OldFeed,
        OldFeedBatch,
    )
    from bloomdupe.crawl.engines.on_redis.going.feeds.old_file import OldFeedFile

    Complete: TypeAlias = tuple[FeedSlot, int, Content]
    """A batch's slot, number of items, and the new content of its file."""


@dataclass
class _Part:
    """The lines that are added to a batch."""

    batch: OldFeedBatch
    lines: list[bytes] = field(default_factory=list)
    file: OldFeedFile | None = None
    content: Content | None = None
    """The new content of the file; None: no change."""

    @property
    def items(self) -> int:
        return self.batch.items + len(self.lines)


class OldDraft:
    """Collects lines, computes the content of the files, and updates the feed.

    The order is: :meth:`add`, :meth:`seal`, :meth:`record`, (commit), :meth:`done`.
    """

    def __init__(self, feed: OldFeed) -> None:
        self._feed = feed
        self._parts = [_Part(feed.batch, file=feed.batch.file)]
        self._lines = self._parts[0].lines
        # Items until the batch is full; without batches it never becomes 0.
        self._left = feed.most - feed.batch.items if feed.most else -1
        self._whole = True
        self._finishing = False
        self._record: dict[str, Any] = {}

    def add(self, line: bytes) -> bool:
        """Add the line of a settled item to the feed; True if a batch begins."""
        begins = not self._left
        if begins:
            self._parts.append(_Part(self._feed.after(self._parts[-1].batch)))
            self._lines = self._parts[-1].lines
            self._left = self._feed.most
        self._lines.append(line)
        self._left -= 1
        return begins

    def seal(self, *, whole: bool, finishing: bool, hold: bool) -> None:
        """Compute the new content of the files.

        ``whole`` says that everything in them is settled, ``finishing`` that no line
        comes after it, ``hold`` that lines may be held for later lines.
        """
        self._whole, self._finishing = whole, finishing
        feed = self._feed
        for part in self._parts:
            held = hold and not self._is_full(part)
            if part.file is not None:
                part.content = feed.next_piece(part.batch, part.lines, hold=held)
            elif part.lines:
                part.file = feed.new_file(part.batch)
                part.content = feed.first_piece(
                    part.file.content, part.lines, hold=held
                )
        part = self._parts[0]
        slot = part.batch.slot
        if finishing and not part.items and slot.store_empty and slot.batch_id == 1:
            self._seal_empty(part)

    def _seal_empty(self, part: _Part) -> None:
        """Make a file without items, unless the file exists."""
        if part.file is None:
            file = self._feed.new_file(part.batch)
            if not file.content.base:
                part.file = file
                part.content = self._feed.first_piece(file.content, [])

    def record(
        self, files: list[dict[str, Any]], blobs: dict[str, bytes]
    ) -> dict[str, Any]:
        """Return the record of the feed for the store; add its files and pieces."""
        feed = self._feed
        last = self._parts[-1]
        present = feed.settled_file
        if self._whole:
            slot = last.batch.slot
            self._record = feed.record(slot.batch_id, slot.uri, last.items)
            present = None if self._is_full(last) else last.file
        else:
            self._record = feed.settled
        number = None
        for file, content in self._files():
            if file is present:
                number = len(files)
            elif self._whole and not content.piece:
                continue
            entry, held = content.record, content.held
            if not self._whole:
                held = file.held
                entry |= {"mark": file.mark, "held": len(held)}
            if content.piece or held:
                blobs[f"feed{len(files)}"] = content.piece + held
            files.append(entry)
        self._record = {**self._record, "file": number}
        return self._record

    def complete(self) -> Iterator[Complete]:
        """Yield the batches that will be complete after the commit."""
        if not self._whole:
            return
        for batch in self._feed.earlier:
            if batch.file is not None:
                yield batch.slot, batch.items, batch.file.content
        for part in self._parts:
            if part.file is not None and (self._finishing or self._is_full(part)):
                content = part.content or part.file.content
                yield part.batch.slot, part.items, content

    @property
    def changed(self) -> str | None:
        """Name of the present file, if it gets more lines."""
        part = self._parts[0]
        file = part.batch.file
        return Path(file.path).name if file is not None and part.lines else None

    def _files(self) -> Iterator[tuple[OldFeedFile, Content]]:
        """Yield the files of the feed and their new content."""
        for batch in self._feed.earlier:
            if batch.file is not None:
                yield batch.file, batch.file.content
        for part in self._parts:
            if part.file is not None:
                yield part.file, part.content or part.file.content

    def _is_full(self, part: _Part) -> bool:
        return bool(self._feed.most) and part.items >= self._feed.most

    def done(self) -> None:
        """Update the feed after the commit."""
        feed = self._feed
        for part in self._parts:
            part.batch.slot.itemcount = part.items
            part.batch.file = part.file
            if part.file is not None and part.content is not None:
                part.file.take(part.content)
        feed.earlier += [part.batch for part in self._parts[:-1]]
        last = self._parts[-1]
        feed.batch = last.batch
        if self._whole:
            feed.settled = self._record
            feed.settled_file = last.file
            if last.file is not None:
                last.file.settle()
