"""Feed: lines that are committed before they are appended to a local file."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

from scrapy.exporters import CsvItemExporter

from bloomdupe.errors import FeedError
from bloomdupe.feeds.feed_format import (
    options_of,
    plain,
    with_parameters,
    without_secret,
)
from bloomdupe.feeds.journal import Piece, packed
from bloomdupe.inside_scrapy.feed_exporter import write_columns
from bloomdupe.printable import logger_of
from bloomdupe.requests.values import unpack

if TYPE_CHECKING:
    from scrapy.exporters import BaseItemExporter
    from scrapy.extensions.feedexport import FeedSlot

    from bloomdupe.feeds.file import FeedFile
    from bloomdupe.feeds.journal import Journal
    from bloomdupe.inside_scrapy.feed_exporter import FeedExporterAccess

logger = logger_of(__name__)

BLOCK_BYTES = 64 << 10
"""Bytes of lines that are written together."""


class Feed:
    """Encodes items as lines when they are scraped; writes them when they are acked.

    The order in a checkpoint is: :meth:`begin`, :meth:`add`, :meth:`seal`, (commit),
    :meth:`done`, :meth:`append`. Nothing that counts is changed before :meth:`done`.

    The store keeps, for each feed:

    ``uri``     place of the file
    ``items``   items in it
    ``file``    see :class:`~bloomdupe.feeds.file.FeedFile`; null if it is not there
                yet
    ``ours``    whether the crawl has ever written to it
    ``number``  of its piece among the records in ``lines``
    ``fields``  its columns (CSV)
    ``options`` see :func:`~bloomdupe.feeds.feed_format.options_of`
    ``done``    true if it was complete, and the present run does not have it
    """

    def __init__(
        self,
        number: int,
        name: str,
        slot: FeedSlot,
        access: FeedExporterAccess,
        record: dict[str, Any] | None,
        file: FeedFile,
        lines: Journal,
    ) -> None:
        self.number, self.name, self.slot, self.file = number, name, slot, file
        self._options = options_of(slot.feed_options)
        self._lines = lines
        record = record or {"items": 0, "fields": None}
        slot.itemcount = record["items"]
        self._access, self._fields = access, record["fields"]
        self._head = b""
        """Bytes at the beginning of a file; for CSV known after the first item only."""
        self._exporter: BaseItemExporter | None = None
        self._sink = BytesIO()

    # Items

    def encode(self, item: object) -> bytes:
        """Return an item as the bytes of its line in the file."""
        exporter = self._exporter or self._begin_exporter(item)
        try:
            exporter.export_item(item)
        finally:  # no part of an item that fails may precede the next item
            line = self._written()
        return line

    def _begin_exporter(self, item: object) -> BaseItemExporter:
        self._sink = BytesIO()  # an exporter that has failed closes the last one
        exporter = self._access.new_exporter(self.slot, self._sink)
        exporter.start_exporting()
        if isinstance(exporter, CsvItemExporter):
            write_columns(exporter, item, self._fields)
            self._head, self._fields = self._written(), plain(exporter.fields_to_export)
        self._exporter = exporter
        return exporter

    def _written(self) -> bytes:
        """Return what the exporter has written, once."""
        data = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return data

    # Checkpoints

    def begin(self) -> None:
        """Begin with the next commit; what was added for another is taken back."""
        self._items, self._end = self.slot.itemcount, self.file.end
        self._begun = self.file.begun
        self._block = bytearray()

    def add(self, line: bytes) -> None:
        """Add the line of an acknowledged item."""
        if not self._begun:
            self._begin_file()
            line = self.file.joint(self._head) + line
        elif not self._end and not self._block:  # it was stored empty
            line = self._head + line
        self._items += 1
        self._block += line
        if len(self._block) >= BLOCK_BYTES:
            self._flush()

    def seal(self, *, finishing: bool) -> dict[str, Any]:
        """Return the record of the feed for the store.

        ``finishing`` makes a file without items, if it is wanted, unless it exists.
        """
        self._flush()
        if finishing and not self._begun and self.slot.store_empty:
            self._begin_file()
            self._begun = not self.file.base  # or it is the user's
        return {
            "uri": without_secret(self.slot.uri),
            "items": self._items,
            "file": {"base": self.file.base, "size": self._end}
            if self._begun
            else None,
            "ours": self._begun or self.file.ours,
            "number": self.number,
            "fields": self._fields,
            "options": self._options,
        }

    def done(self) -> None:
        """Note that all this is committed."""
        self.slot.itemcount = self._items
        self.file.begun, self.file.end = self._begun, self._end

    def append(self) -> None:
        """Write the lines of the last checkpoint."""
        self.file.append(Piece(self._lines, self.number))

    def _begin_file(self) -> None:
        self.file.begin()
        self._begun, self._end = True, self.file.end

    def _flush(self) -> None:
        """Add a block to the piece."""
        if self._block:
            self._lines.add(packed([self.number], self._block))
            self._end += len(self._block)
            self._block.clear()


def name_of(access: FeedExporterAccess, template: str, options: dict[str, Any]) -> str:
    """Return the name of a feed: its URI without the parts that change in each run.

    So a feed for another value of a spider's argument is another feed. Raises
    :class:`~bloomdupe.errors.FeedError` if the spider lacks a parameter of it.
    """
    name = without_secret(template)
    try:
        return with_parameters(name, access.uri_params(options, 1))
    except KeyError as error:
        raise FeedError(
            f"FEEDS: {name} needs {error.args[0]!r}, which the spider has not when the"
            " crawl begins: set it when the spider is made, as -a does"
        ) from error


@dataclass
class WaitingFeed:
    """A feed that is written from the journal.

    The store keeps its ``uri``, ``items``, ``index`` and ``begin``, and no ``file``.
    """

    name: str
    """Its name in the store."""
    slot: FeedSlot
    """Scrapy's slot of its first file; it counts the items of this round, as of the
    last commit."""
    index: int
    """By which the journal names it."""
    begin: int = 0
    """The position in the journal at which the present round begins."""
    tried: bool = False
    """Whether its exporter was tried with an item of this run."""

    def try_exporter(self, access: FeedExporterAccess, item: bytes) -> None:
        """Export the first item of the run, and say so at once if that fails."""
        if self.tried:
            return
        self.tried = True
        try:
            exporter = access.new_exporter(self.slot, BytesIO())
            exporter.start_exporting()
            exporter.export_item(unpack(item))
            exporter.finish_exporting()
        except Exception:  # of any exporter in the settings
            logger.exception(
                "The exporter of the feed %(uri)s fails for its first item. The"
                " items are kept in the job, and exported when the crawl has finished:"
                " mend the exporter",
                {"uri": self.name},
                extra={"spider": self.slot.spider},
            )

    def record(self, added: int) -> dict[str, Any]:
        """Return the record of the feed for the store, with so many new items."""
        return {
            "uri": without_secret(self.slot.uri),
            "items": self.slot.itemcount + added,
            "file": None,
            "index": self.index,
            "begin": self.begin,
        }
