"""Feed: one of Scrapy's feeds, as lines that are committed before they are written."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.exporters import CsvItemExporter, JsonLinesItemExporter
from scrapy.extensions.feedexport import FileFeedStorage
from scrapy.extensions.postprocessing import (
    Bz2Plugin,
    GzipPlugin,
    LZMAPlugin,
    PostProcessingManager,
)
from scrapy.utils.misc import load_object

from bloomdupe.errors import FeedChangedError
from bloomdupe.feedfile import FeedFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.exporters import BaseItemExporter
    from scrapy.extensions.feedexport import FeedSlot

__all__ = ["Feed", "obstacle"]

FORMATS = (JsonLinesItemExporter, CsvItemExporter)
"""Exporters that write one item after the other, and nothing at the end."""

STREAMS = (GzipPlugin, Bz2Plugin, LZMAPlugin)
"""Compressors whose streams may follow one another in a file."""


def obstacle(slot: FeedSlot) -> str | None:
    """Say why a feed cannot be continued after an interruption; None: it can."""
    storage = slot.storage
    if type(storage) is not FileFeedStorage:
        return f"its storage is {type(storage).__name__}"
    if Path(storage.path).exists() and not Path(storage.path).is_file():
        return "it is not a regular file"
    exporter = slot.exporters[slot.format]
    base = next((c for c in FORMATS if issubclass(exporter, c)), None)
    if base is None or any(
        getattr(exporter, name) is not getattr(base, name)
        for name in ("start_exporting", "finish_exporting")
    ):
        return f"its format is {slot.format}"
    for plugin in slot.feed_options.get("postprocessing", ()):
        if load_object(plugin) not in STREAMS or slot.feed_options.get("lzma_format"):
            return f"it is post-processed by {plugin}"
    return None


class Feed:
    """Takes items as lines when they are scraped, into a file when they are settled.

    ``start(batch_id)`` returns Scrapy's slot for a batch, which knows its place. The
    store keeps, for each feed:

    ``uri``     place of the present file; ``path`` in the state of its FeedFile
    ``batch``   number of the batch, from 1
    ``items``   items in it
    ``length``  bytes in it; less than in the state of the FeedFile in the middle of
                the items of a request that brought very many
    ``header``  line at the head of each file (CSV), as Latin-1 text
    ``fields``  what its columns are
    ``options`` format, fields and post-processing as they were set
    """

    def __init__(
        self, number: int, template: str, start: Callable[[int], FeedSlot]
    ) -> None:
        self.number = number
        self.template = template
        self._start = start
        self.slot = start(1)
        options = self.slot.feed_options
        self.options = {
            "format": options["format"],
            "fields": _plain(options["fields"]),
            "postprocessing": [str(p) for p in options.get("postprocessing", ())],
        }
        self._most = int(options["batch_item_count"] or 0)
        self._file: FeedFile | None = None
        # Of batches that are complete, their last lines perhaps not written yet.
        self._full: list[tuple[FeedFile, FeedSlot]] = []
        self._lines: list[bytes] = []
        self._header: bytes | None = None
        self._fields: Any = None
        self._sink = BytesIO()
        self._exporter: BaseItemExporter | None = None

    # Items become lines

    def accepts(self, item: object) -> bool:
        """Whether the item belongs in this feed."""
        return bool(self.slot.filter.accepts(item))

    def encode(self, item: object) -> bytes:
        """Return an item as it will stand in the file."""
        exporter = self._exporter
        if exporter is None:
            exporter = self._exporter = self._new_exporter()
        if self._header is None:
            self._header = self._head(exporter, item)
        exporter.export_item(item)
        return self._take()

    def _new_exporter(self) -> BaseItemExporter:
        options = self.slot.feed_options
        exporter = self.slot._get_exporter(
            self._sink,
            self.slot.format,
            fields_to_export=options["fields"],
            encoding=options["encoding"],
            indent=options["indent"],
            **options["item_export_kwargs"],
        )
        exporter.start_exporting()
        if isinstance(exporter, CsvItemExporter) and self._header is not None:
            exporter._headers_not_written = False
            exporter.fields_to_export = self._fields
            exporter._autodetected_fields = options["fields"] is None
        return exporter

    def _head(self, exporter: BaseItemExporter, item: object) -> bytes:
        """Let the first item fix the columns; return the line that names them."""
        if isinstance(exporter, CsvItemExporter):
            exporter._headers_not_written = False
            exporter._write_headers_and_set_fields_to_export(item)
            self._fields = _plain(exporter.fields_to_export)
        return self._take()

    def _take(self) -> bytes:
        line = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return line

    # Lines become files

    def add(self, line: bytes) -> None:
        """Put the line of a settled item into the present file."""
        if self._most and self.slot.itemcount >= self._most:
            self.gather()
            self._full.append((self.begin(), self.slot))
            self._file = None
            self.slot = self._start(self.slot.batch_id + 1)
        self._lines.append(line)
        self.slot.itemcount += 1

    @property
    def batched(self) -> bool:
        """Whether files hold a limited number of items."""
        return self._most > 0

    def gather(self) -> None:
        """Make the lines added so far the next piece of the present file."""
        if not self._lines:
            return
        file = self.begin()
        data = b"".join(self._lines)
        self._lines.clear()
        header = self._header or b""
        if header and not (file.size or file.piece):
            data = header + data
        file.piece += self._compressed(data)

    def begin(self) -> FeedFile:
        """Return the present file."""
        if self._file is None:
            storage: Any = self.slot.storage
            overwrite = bool(self.slot.feed_options.get("overwrite", False))
            self._file = FeedFile.begin(str(storage.path), overwrite=overwrite)
        return self._file

    @property
    def files(self) -> list[FeedFile]:
        """Files that the store has to know."""
        return [*(file for file, _ in self._full), self.begin()]

    def drop_full(self) -> list[FeedSlot]:
        """Close the files of complete batches that are on disk; return their slots."""
        done = [(file, slot) for file, slot in self._full if not file.piece]
        self._full = [(file, slot) for file, slot in self._full if file.piece]
        for file, _ in done:
            file.close()
        return [slot for _, slot in done]

    def close(self) -> None:
        """Release the files; nothing is written."""
        for file in self.files:
            file.close()
        if self._exporter is not None:
            self._exporter.finish_exporting()

    def _compressed(self, data: bytes) -> bytes:
        options = self.slot.feed_options
        if "postprocessing" not in options:
            return data
        # A whole stream for each piece; one after the other they are a valid file.
        target = BytesIO()
        manager = PostProcessingManager(options["postprocessing"], target, options)
        manager.write(data)
        manager.close()
        return target.getvalue()

    # What the store keeps

    def record(self) -> dict[str, Any]:
        """Return what the store has to keep."""
        file = self.begin()
        return {
            "uri": self.slot.uri,
            "batch": self.slot.batch_id,
            "items": self.slot.itemcount,
            "length": file.size + len(file.piece),
            "header": None if self._header is None else self._header.decode("latin-1"),
            "fields": self._fields,
            "options": self.options,
        }

    def resume(self, record: dict[str, Any], file: FeedFile) -> None:
        """Go on where the last run has stopped.

        Raises :class:`FeedChangedError` if the feed was set up differently then.
        """
        if record["options"] != self.options:
            raise FeedChangedError(
                f"FEEDS: {record['uri']} was begun with {record['options']}, now it is"
                f" {self.options}: set it back, name another file, or give the new"
                " crawl another JOBDIR"
            )
        self.slot = self._start(record["batch"])
        self.slot.uri = record["uri"]
        self.slot.itemcount = record["items"]
        self._file = file
        header = record["header"]
        self._header = None if header is None else header.encode("latin-1")
        self._fields = record["fields"]


def _plain(fields: Any) -> Any:  # noqa: ANN401 - a list, a mapping or None
    """Return a list of fields as JSON gives it back."""
    if fields is None or isinstance(fields, dict):
        return fields
    return list(fields)
