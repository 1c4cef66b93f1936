"""Pieces: lines that are committed, and not yet durable in the files of their feeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.feeds.records import RecordFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST_BYTES = 1 << 23
"""A file with more bytes is deleted when its turn is over."""


class Pieces:
    """The lines of one checkpoint, in one of two files that take turns.

    While the next checkpoint is prepared in one, the other has the lines of the last.
    The store keeps, as ``pieces``, the number of the ``turn`` and the ``size`` of the
    file.
    """

    def __init__(self, directory: Path, record: dict[str, Any]) -> None:
        turn = int(record.get("turn", 0))
        here, there = (directory / f"lines.{n % 2}" for n in (turn, turn + 1))
        self._last = RecordFile(here, record.get("size", 0), turn)
        self._next = RecordFile(there, 0, turn + 1)

    def begin(self) -> RecordFile:
        """Return the file for the lines of the next checkpoint."""
        self._next.cut_back(0)
        return self._next

    def seal(self) -> dict[str, Any]:
        """Make the next lines durable; return the record for the store."""
        self._next.sync()
        return {"turn": self._next.number, "size": self._next.size}

    def take_turns(self) -> None:
        """Note that the record is committed."""
        if self._last.size > MOST_BYTES:
            self._last.delete()
        self._last, self._next = self._next, self._last
        self._next.number = self._last.number + 1

    def of(self, number: int) -> Piece:
        """Return the lines with this number in the last checkpoint."""
        return Piece(self._last, number)

    def close(self) -> None:
        """Release the files; nothing is written."""
        self._last.close()
        self._next.close()


class Piece:
    """The lines with one number; they may be read as often as one likes."""

    def __init__(self, file: RecordFile, number: int) -> None:
        self._file, self._number = file, number

    def __iter__(self) -> Iterator[bytes]:
        for _, number, data in self._file.read(0, self._file.size):
            if number == self._number:
                yield data
