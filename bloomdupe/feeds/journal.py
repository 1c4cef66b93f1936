"""Journal: the items of a job for the feeds that are written when it has finished."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from bloomdupe.feeds.records import RecordFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

ITEM = (1 << 32) - 1
"""The number of the journal, in the place of a feed's number."""


class Journal:
    """All items that a feed of another kind than lines in a local file will get.

    An item is there once, after the indexes of its feeds. The store keeps, as
    ``journal``, the ``size`` of the file, and a ``number`` that is another one when the
    journal has begun anew, in another file.
    """

    def __init__(self, directory: Path, record: dict[str, Any]) -> None:
        self._directory = directory
        self.number = int(record.get("number", 0))
        self.file = self._file_of(self.number, record.get("size", 0))
        self._committed = self.file.size

    @property
    def size(self) -> int:
        """Bytes that are committed."""
        return self._committed

    def begin_anew(self) -> None:
        """Begin with an empty file; everything was delivered."""
        self.number += 1
        self.file = self._file_of(self.number, 0)
        self._committed = 0

    def forget(self) -> None:
        """Delete the file of the journal before this one."""
        self._file_of(self.number - 1, 0).delete()

    def _file_of(self, number: int, size: int) -> RecordFile:
        return RecordFile(self._directory / f"items.{number % 2}", size, number)

    @staticmethod
    def packed(indexes: Iterable[int], item: bytes) -> bytes:
        """Return an item with the indexes of its feeds, to be added."""
        marks = array("I", indexes).tobytes()
        return len(marks).to_bytes(4, "little") + marks + item

    @staticmethod
    def unpacked(data: bytes) -> tuple[array[int], bytes]:
        """Return the indexes and the item of a :meth:`packed` item.

        Raises :class:`ValueError` for other data.
        """
        marks = _marks(data)
        size = 4 + len(marks) * marks.itemsize
        if int.from_bytes(data[:4], "little") != size - 4:
            raise ValueError("it is no item")
        return marks, data[size:]

    def begin(self) -> None:
        """Take back what was added and not committed."""
        self.file.cut_back(self._committed)

    def add(self, data: bytes) -> array[int]:
        """Add a :meth:`packed` item; return the indexes."""
        self.file.add(0, data)
        return _marks(data)

    def seal(self) -> dict[str, Any]:
        """Make what was added durable; return the record for the store."""
        self.file.sync()
        return {"number": self.number, "size": self.file.size}

    def committed(self, record: dict[str, Any]) -> None:
        """Note that a record is committed."""
        self._committed = record["size"]

    def items(self, index: int, start: int) -> Iterator[tuple[int, bytes]]:
        """Yield the committed items of a feed: position behind it, and the item.

        Raises :class:`~bloomdupe.errors.FeedError` if the file is damaged.
        """
        for position, _, data in self.file.read(start, self._committed):
            marks, item = self.unpacked(data)
            if index in marks:
                yield position, item


def _marks(data: bytes) -> array[int]:
    marks = array("I")
    marks.frombytes(data[4 : 4 + int.from_bytes(data[:4], "little")])
    return marks
