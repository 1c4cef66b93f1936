"""AppendedFeed: a local file that holds committed lines, and no others of a crawl."""

from __future__ import annotations

import fcntl
import os
import stat
from io import BytesIO
from typing import TYPE_CHECKING, Any

from bloomdupe.errors import FeedChangedError, FeedError
from bloomdupe.feeds.feed import Feed
from bloomdupe.feeds.feed_format import changed_options, options_of
from bloomdupe.feeds.journal import packed
from bloomdupe.inside_scrapy.feed_exporter import started_exporter
from bloomdupe.store.files import (
    Descriptor,
    make_directory,
    read_bytes,
    sync_directory,
    write_bytes,
)
from bloomdupe.store.platform import sync_data
from bloomdupe.store.system_errors import explained

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy.exporters import BaseItemExporter, CsvItemExporter
    from scrapy.extensions.feedexport import FeedSlot

    from bloomdupe.feeds.journal import Journal


class Encoder:
    """Encodes items as the lines of a file, when they are scraped."""

    def __init__(self, slot: FeedSlot) -> None:
        self._slot = slot
        self.fields: Any = None
        """The columns (CSV); the first item of all runs names them."""
        self.head = b""
        """Bytes at the beginning of a file; for CSV known after the first item only."""
        self._exporter: BaseItemExporter | None = None
        self._sink = BytesIO()

    def encode(self, item: object) -> bytes:
        """Return an item as the bytes of its line in the file."""
        exporter = self._exporter or self._begin(item)
        try:
            exporter.export_item(item)
        finally:  # no part of an item that fails may precede the next item
            line = self._written()
        return line

    def _begin(self, item: object) -> BaseItemExporter:
        self._sink = BytesIO()  # an exporter that has failed closes the last one
        exporter = started_exporter(self._slot, self._sink)
        from scrapy.exporters import CsvItemExporter

        if isinstance(exporter, CsvItemExporter):
            self._begin_csv(exporter, item)
        self._exporter = exporter
        return exporter

    def _begin_csv(self, exporter: CsvItemExporter, item: object) -> None:
        """Let the exporter write the columns, which it does before its first item."""
        from itemadapter import ItemAdapter

        given = exporter.fields_to_export or self.fields
        any_item = dict.fromkeys(given or ItemAdapter(item).field_names(), "x")
        exporter.export_item(any_item)
        with_head = self._written()
        exporter.export_item(any_item)
        self.head = with_head.removesuffix(self._written())
        self.fields = list(exporter.fields_to_export or ())

    def _written(self) -> bytes:
        """Return what the exporter has written, once."""
        data = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return data


NOT_BEGUN: dict[str, Any] = {"base": 0, "size": None}
"""In the record of a feed whose file has nothing of the crawl yet."""


class AppendedFeed(Feed):
    """A file that grows by pieces; each piece is committed before it is written.

    A piece is durable in the journal ``lines`` before its commit, and written to the
    file only after it; the commit after that, before which the file is synced, drops
    it. So the file never holds uncommitted lines, and after a crash the job has
    everything that is missing in it. Any other content of the file comes from
    elsewhere.

    Its record has, too:

    ``base``    bytes that are durable in the file; ``size`` are those with the piece
    ``ours``    whether the crawl has ever written to it: then it never empties it
    ``fields``  its columns

    While a file is open, no other process that uses this class can write to it
    (``flock``).
    """

    def __init__(
        self,
        name: str,
        slot: FeedSlot,
        number: int,
        place: Path,
        lines: Journal,
    ) -> None:
        super().__init__(name, slot, number)
        options = options_of(slot.feed_options)
        self.record |= {**NOT_BEGUN, "ours": False, "options": options}
        self.place = place
        """An absolute path: a spider may change the working directory."""
        self.encoder, self._lines = Encoder(slot), lines
        self._file: Descriptor | None = None
        self._written = False
        """Whether the file has the piece, which is not synced."""

    # Checkpoints

    def begin(self) -> None:
        """Begin with the next commit, which drops the last piece: the file has it."""
        self._complete()
        super().begin()

    def add(self, data: bytes) -> None:
        """Add the line of an acknowledged item."""
        super().add(data)
        if not self._next["size"]:
            if self._next["size"] is None:  # or it was stored empty
                self._begin_file()
            data = self._joint() + data
        self._lines.add(packed([self.number], data))
        self._next["size"] += len(data)

    def seal(self, *, finishing: bool) -> dict[str, Any]:
        """Return the record for the store.

        ``finishing`` makes a file without items, if it is wanted, unless it exists.
        """
        if finishing and self._next["size"] is None and self.slot.store_empty:
            self._begin_file()
            if self._next["base"]:  # it is the user's
                self._next |= NOT_BEGUN
        self._next["ours"] |= self._next["size"] is not None
        self._next["fields"] = self.encoder.fields
        return self._next

    def append(self) -> None:
        """Write the piece of the last commit to the end of the file.

        Raises :class:`~bloomdupe.errors.BloomDupeError` if that fails; then the piece
        may be there in part, and the job keeps it.
        """
        end, size = self.record["base"], self.record["size"]
        if self._written or size in (None, end):
            return
        remedy = "what is missing is kept in the job: run the same command again"
        with explained(f"cannot write to the feed {self.place}", self.place, remedy):
            fd = self._opened()
            change = self.change_since(self.record)
            if change is not None:
                raise FeedChangedError(
                    f"the feed {self.place} {change} by another program while the crawl"
                    f" was running, which had written {end:,} bytes to it"
                )
            for _, data in self._lines.of(self.number):
                write_bytes(fd, data, end)
                end += len(data)
        self._written = True

    def close(self) -> None:
        """Release the file; nothing is written."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _complete(self) -> None:
        """Make the piece durable in the file."""
        self.append()
        if not self._written or self._file is None or self._file.closed:
            return  # it is closed in a fork, where the store refuses the commit
        with explained(f"cannot write to the feed {self.place}", self.place):
            sync_data(self._file.fileno())
        self.record["base"] = self.record["size"]
        self._written = False

    # The file

    def _begin_file(self) -> None:
        """Go on at the end of what is there, before the first piece; or empty it."""
        new = self._next
        with explained(f"cannot write the feed {self.place}", self.place):
            fd = self._opened()
            if self.slot.feed_options.get("overwrite") and not new["ours"]:
                os.ftruncate(fd, 0)
                sync_data(fd)
            new["base"] = new["size"] = os.fstat(fd).st_size

    def _joint(self) -> bytes:
        """Return the text between the present content and the first line of a crawl."""
        base, head = self._next["base"], self.encoder.head
        if base:
            if read_bytes(self.place, 0, len(head)) == head:
                head = b""  # the columns are the same
            if read_bytes(self.place, base - 1, base) != b"\n":
                head = b"\n" + head
        return head

    def _opened(self) -> int:
        if self._file is None:
            new = not os.path.lexists(self.place)
            make_directory(self.place.parent)
            self._file = Descriptor(os.open(self.place, os.O_RDWR | os.O_CREAT, 0o666))
            try:
                fcntl.flock(self._file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.close()
                raise FeedError(
                    f"the feed {self.place} is being written by another feed or crawl:"
                    " a file belongs to one of them; name another file, such as one"
                    " with %(name)s in it, which stands for the spider"
                ) from None
            except OSError:
                pass  # no locks on this file system; the size shows other writers
            if new:
                sync_directory(self.place.parent)
        return self._file.fileno()

    # The last run

    def change_since(self, record: dict[str, Any]) -> str | None:
        """Describe how the file differs from the states that a record allows.

        It has ``base`` bytes then, and a part of the piece. Raises
        :class:`~bloomdupe.errors.StoreError` if the place cannot be read.
        """
        base, size, place = record["base"], record["size"], self.place
        if size is None:
            return None
        with explained(f"cannot continue the feed {place}", place):
            try:
                found = place.stat()
            except FileNotFoundError:
                return "was deleted" if base or self._file else None
            if not stat.S_ISREG(found.st_mode):
                return "was replaced by something that is not a file"
            if self._file and not os.path.samestat(found, os.fstat(self._opened())):
                return "was replaced"
            if not base <= found.st_size <= size:
                how = "cut" if found.st_size < base else "lengthened"
                return f"was {how} to {found.st_size:,} bytes"
            lines = self._lines.of(self.number) if found.st_size > base else ()
            for _, data in lines:
                if not _is_begun(read_bytes(place, base, base + len(data)), data):
                    return f"has other content after {base:,} bytes"
                base += len(data)
        return None

    def restore(self, old: dict[str, Any], *, bound: bool, resumed: bool) -> None:
        """Go on from the record of the last run; the file gets what it lacks."""
        new = {**self.record, "ours": resumed and old["ours"]}
        self.go_on(self.left_by(old) if bound else {**old, **NOT_BEGUN})
        # A power cut may have left a hole even in a file that has its end.
        self._complete()
        if resumed and not changed_options(old["options"], new["options"]):
            self.encoder.fields = old["fields"]
        else:
            self.go_on(new)

    def left_by(self, old: dict[str, Any]) -> dict[str, Any]:
        """Return a record as it holds for the present file.

        If the piece is gone, the file must have it: a checkpoint that was not committed
        has overwritten it, or a backup does without it.
        """
        if old["size"] not in (None, old["base"]):
            try:
                for _ in self._lines.of(self.number):
                    pass
            except FeedError:
                return {**old, "base": old["size"]}
        return old


def _is_begun(found: bytes, line: bytes) -> bool:
    """Whether a line may have been written in part.

    A power cut may leave zeros in the place of any of its sectors.
    """
    return line.startswith(found) or all(
        now in (0, new) for now, new in zip(found, line, strict=False)
    )
