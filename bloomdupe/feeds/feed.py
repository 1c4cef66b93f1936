"""Feed: lines that are committed before they are appended to a local file."""

from __future__ import annotations

from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.feeds.feed_format import Format, options_of
from bloomdupe.feeds.file import FeedFile, Growth
from bloomdupe.feeds.uri import with_parameters, without_secret
from bloomdupe.inside_scrapy.helpers import PostProcessingManager

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from scrapy.extensions.feedexport import FeedSlot

    from bloomdupe.feeds.pieces import Pieces
    from bloomdupe.feeds.records import RecordFile
    from bloomdupe.inside_scrapy.feed_exporter import FeedExporterAccess

    class Encoder(Protocol):
        """What turns items into the lines of a feed."""

        number: int

        def accepts(self, item: Any, /) -> bool:  # noqa: ANN401
            """Whether an item belongs to it."""

        def encode(self, item: Any, /) -> bytes:  # noqa: ANN401
            """Return an item as bytes."""


BLOCK_BYTES = 64 << 10
"""Bytes of lines that are compressed together. The file is less than one and a half
times as large as a file that is compressed in one piece."""


HELD = "held"
"""Begins the names of values in the store with lines that are held."""


class Known(NamedTuple):
    """The state of a feed that an earlier run may have begun."""

    name: str
    """Its name in the store."""
    record: dict[str, Any] | None = None
    """None for a new feed."""
    file: FeedFile | None = None
    held: bytes = b""
    ours: bool = False
    """Whether this crawl has written to its file."""


class Feed:
    """Encodes items as lines when they are scraped; writes them when they are settled.

    The store keeps, for each feed:

    ``uri``     place of the file
    ``items``   items in it
    ``file``    see :class:`~bloomdupe.feeds.file.FeedFile`; null if it is not there
                yet
    ``number``  of its lines among the pieces
    ``held``    bytes of lines that are compressed later, in the value ``held0`` etc.
    ``header``  line at the head of the file (CSV), as Latin-1 text
    ``fields``  its columns
    ``options`` see :func:`~bloomdupe.feeds.feed_format.options_of`
    ``done``    true if it was complete, and the present run does not have it
    """

    def __init__(
        self, number: int, slot: FeedSlot, access: FeedExporterAccess, known: Known
    ) -> None:
        self.number, self.name, self.slot = number, known.name, slot
        options = slot.feed_options
        self.options = options_of(options)
        self._here = access.here
        self.file, self.held = known.file, known.held
        self._overwrite = bool(options.get("overwrite", False)) and not known.ours
        self.accepts: Callable[[object], bool] = slot.filter.accepts
        self.format = Format(partial(access.new_exporter, slot), options["fields"])
        self._before = -1
        if known.record is not None:
            self._before = slot.itemcount = known.record["items"]
            self.format.resume(known.record["header"], known.record["fields"])
        self.encode = self.format.encode

    @property
    def has_grown(self) -> bool:
        """Whether this run has begun the feed, or has given it items."""
        return self.slot.itemcount > self._before

    def record(
        self, items: int, file: dict[str, Any] | None, held: int
    ) -> dict[str, Any]:
        """Return the record for the store."""
        return {
            "uri": without_secret(self.slot.uri),
            "items": items,
            "file": file,
            "number": self.number,
            "held": held,
            "header": self.format.header,
            "fields": self.format.fields,
            "options": self.options,
        }

    def new_file(self) -> FeedFile:
        """Return the file if there is none yet; nothing is changed."""
        storage: Any = self.slot.storage
        path = str(storage.path)
        return FeedFile.begin(path, self._here / path, overwrite=self._overwrite)

    def head_for(self, file: FeedFile) -> bytes:
        """Return the text before the first line, given the present content."""
        head = self.format.head
        if not file.base.size or self.compresses:
            return head
        if file.begins_with(head):
            head = b""  # the columns are the same
        return head if file.base.tail.endswith(b"\n") else b"\n" + head

    @property
    def compresses(self) -> bool:
        """Whether lines are held, and compressed together."""
        return bool(self.options["postprocessing"])

    def packed(self, data: bytes) -> bytes:
        """Return lines as they are in the file."""
        if not self.compresses or not data:
            return data
        # A whole stream for each piece; the streams together are a valid file.
        target = BytesIO()
        options = self.slot.feed_options
        manager = PostProcessingManager(options["postprocessing"], target, options)
        manager.write(data)
        manager.close()
        return target.getvalue()

    def append(self, pieces: Pieces) -> None:
        """Write the lines of the last checkpoint."""
        if self.file is not None:
            self.file.append(pieces.of(self.number))

    def close(self) -> None:
        """Release the file; nothing is written."""
        if self.file is not None:
            self.file.close()
        self.format.close()


class Draft:
    """The next commit of a feed, which does not change the feed before.

    The order is: :meth:`add`, :meth:`seal`, :meth:`record`, (commit), :meth:`done`.
    """

    def __init__(self, feed: Feed, lines: RecordFile) -> None:
        self._feed, self._lines, self.name = feed, lines, feed.name
        self._items = feed.slot.itemcount
        self._held = bytearray(feed.held)
        self._file = feed.file
        self._end = Growth(0, b"") if feed.file is None else feed.file.end
        self._empty = False

    def add(self, line: bytes) -> None:
        """Add the line of a settled item."""
        feed = self._feed
        if self._file is None:
            self._open()
            line = feed.head_for(self._opened) + line
        elif not self._end.size and not self._held:  # it was stored empty
            line = feed.format.head + line
        self._items += 1
        if not feed.compresses:
            self._write(line)
            return
        self._held += line
        if len(self._held) >= BLOCK_BYTES:
            self._flush()

    def seal(self, *, ending: bool, finishing: bool) -> None:
        """Add what is held; ``ending``: no line of this run comes after it.

        ``finishing`` makes a file without items, if it is wanted, unless it exists.
        """
        if ending:
            self._flush()
        if finishing and self._file is None and self._feed.slot.store_empty:
            self._open()
            if self._opened.base.size:
                self._file = None
            else:
                self._empty = True

    def record(self, blobs: dict[str, bytes]) -> dict[str, Any]:
        """Return the record of the feed for the store; add the lines that are held."""
        if self._held:
            blobs[f"{HELD}{self._feed.number}"] = bytes(self._held)
        file = None
        if self._file is not None:
            file = self._file.record(self._end, due=self._due)
        return self._feed.record(self._items, file, len(self._held))

    def done(self) -> None:
        """Update the feed after the commit."""
        feed, file = self._feed, self._file
        feed.slot.itemcount = self._items
        feed.held = bytes(self._held)
        feed.file = file
        if file is not None and self._due:
            file.take(self._end)

    @property
    def _due(self) -> bool:
        return self._empty or self._end.size != self._opened.base.size

    def _open(self) -> None:
        self._file = self._feed.new_file()
        self._end = self._file.end

    @property
    def _opened(self) -> FeedFile:
        assert self._file is not None  # noqa: S101 - it was opened
        return self._file

    def _flush(self) -> None:
        self._write(self._feed.packed(bytes(self._held)))
        self._held.clear()

    def _write(self, data: bytes) -> None:
        if data:
            self._lines.add(self._feed.number, data)
            self._end = self._end.plus(data)


def encode(
    item: object, feeds: Sequence[Encoder], lines: list[tuple[int, bytes]]
) -> None:
    """Add the lines of an item, each with the number of its feed.

    If a filter or an exporter fails, the other feeds get the item all the same. Raises
    the exception then.
    """
    for index, feed in enumerate(feeds):
        try:
            if feed.accepts(item):
                lines.append((feed.number, feed.encode(item)))
        except Exception:  # of any filter or exporter in the settings
            encode(item, feeds[index + 1 :], lines)
            raise


def name_of(access: FeedExporterAccess, template: str, options: dict[str, Any]) -> str:
    """Return the name of a feed: its URI without the parts that change in each run.

    So a feed for another value of a spider's argument is another feed.
    """
    name = without_secret(template)
    try:
        return with_parameters(name, access.uri_params(options, 1))
    except KeyError:
        return name
