"""Format: items as bytes that can be put together in any order, in several runs."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

from scrapy.exporters import (
    BaseItemExporter,
    CsvItemExporter,
    JsonItemExporter,
    JsonLinesItemExporter,
    MarshalItemExporter,
    PickleItemExporter,
    PprintItemExporter,
    XmlItemExporter,
)

from bloomdupe.inside_scrapy.feed_exporter import (
    forget_items,
    restore_columns,
    write_columns,
    write_separator,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Format", "can_be_cut", "plain"]

_CUTTABLE = frozenset(
    {
        CsvItemExporter,
        JsonItemExporter,
        JsonLinesItemExporter,
        MarshalItemExporter,
        PickleItemExporter,
        PprintItemExporter,
        XmlItemExporter,
    }
)
"""Exporters that write each item for itself."""


def can_be_cut(exporter: type[BaseItemExporter]) -> bool:
    """Whether an exporter writes each item for itself, regardless of items before it.

    This is known of Scrapy's own classes only. A subclass may remember items, or write
    a line of its own at the beginning or the end.
    """
    return exporter in _CUTTABLE


class Format:
    """What an exporter writes: a head, items with separators, and what closes it all.

    ``build`` makes an exporter that writes to a file, ``given`` are the columns in the
    settings.
    """

    def __init__(
        self, build: Callable[[BytesIO], BaseItemExporter], given: object
    ) -> None:
        self._build = build
        self._given = plain(given)
        self._sink = BytesIO()
        self._exporter: BaseItemExporter | None = None
        self._head: bytes | None = None
        self._separator = b""
        self._closing = b""
        self.fields: Any = None
        """The columns of a CSV file: a list, a mapping or None."""
        self.header: str | None = None
        """The line that names them, as Latin-1; None if it is not known yet."""

    def encode(self, item: object) -> bytes:
        """Return an item as it will stand in the file."""
        exporter = self._exporter or self._begin()
        try:
            if isinstance(exporter, CsvItemExporter):
                if self._head is None:
                    self._fix_columns(exporter, item)
            elif isinstance(exporter, JsonItemExporter):
                forget_items(exporter)
            exporter.export_item(item)
        finally:  # nothing of an item that fails must stand before the next one
            line = self._take()
        return line

    @property
    def head(self) -> bytes:
        """What a file begins with; of CSV known after the first item only."""
        self._exporter or self._begin()
        return self._head or b""

    @property
    def separator(self) -> bytes:
        """What stands between two items."""
        self._exporter or self._begin()
        return self._separator

    @property
    def closing(self) -> bytes:
        """What a file ends with."""
        self._exporter or self._begin()
        return self._closing

    def resume(self, header: str | None, fields: object) -> None:
        """Keep to the columns that an earlier run has fixed."""
        if header is not None:
            self.header, self.fields = header, fields
            self._head = header.encode("latin-1")

    def close(self) -> None:
        """Let the exporter go."""
        if self._exporter is not None:
            self._exporter.finish_exporting()

    def _begin(self) -> BaseItemExporter:
        exporter = self._build(self._sink)
        exporter.start_exporting()
        head = self._take()
        if isinstance(exporter, CsvItemExporter):
            if self._head is not None:
                found = self._given is None
                restore_columns(exporter, self.fields, found=found)
                self._take()
        else:
            self._head = head
            self._find_out_ends()
        self._exporter = exporter
        return exporter

    def _find_out_ends(self) -> None:
        """See what another exporter of this kind writes, which gets no items."""
        sink = BytesIO()
        exporter = self._build(sink)
        exporter.start_exporting()
        begun = sink.tell()
        if isinstance(exporter, JsonItemExporter):
            write_separator(exporter)
        separated = sink.tell()
        exporter.finish_exporting()
        data = sink.getvalue()
        self._separator, self._closing = data[begun:separated], data[separated:]

    def _fix_columns(self, exporter: CsvItemExporter, item: object) -> None:
        write_columns(exporter, item)
        self._head = self._take()
        self.header = self._head.decode("latin-1")
        self.fields = plain(exporter.fields_to_export)

    def _take(self) -> bytes:
        data = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return data


def plain(fields: Any) -> Any:  # noqa: ANN401 - a list, a mapping or None
    """Return a list of fields as JSON gives it back."""
    if fields is None or isinstance(fields, dict):
        return fields
    return list(fields)
