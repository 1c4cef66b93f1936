"""Pieces: lines that are committed, and not yet durable in the files of their feeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.feeds.records import RecordFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HELD = 1 << 31
"""Added to the number of a feed: its lines wait until they are compressed together."""
MOST_BYTES = 1 << 23
"""A file with more bytes is deleted when its turn is over."""


class Pieces:
    """The lines of one checkpoint, in one of two files that take turns.

    While the next checkpoint is prepared in one, the other has the lines of the last.
    The store keeps, as ``pieces``, the ``turn`` and the ``size`` of the file.
    """

    def __init__(self, directory: Path, record: dict[str, Any]) -> None:
        self._files = [RecordFile(directory / f"lines.{turn}") for turn in range(2)]
        self._turn = int(bool(record.get("turn")))
        self._files[self._turn].size = record.get("size", 0)

    def begin(self) -> RecordFile:
        """Return the file for the lines of the next checkpoint."""
        file = self._files[1 - self._turn]
        file.cut_back(0)
        return file

    def seal(self) -> dict[str, Any]:
        """Make the next lines durable; return the record for the store."""
        file = self._files[1 - self._turn]
        file.sync()
        return {"turn": 1 - self._turn, "size": file.size}

    def take_turns(self) -> None:
        """Note that the record is committed."""
        last = self._files[self._turn]
        if last.size > MOST_BYTES:
            last.delete()
        self._turn = 1 - self._turn

    def of(self, number: int) -> Piece:
        """Return the lines with this number in the last checkpoint."""
        return Piece(self._files[self._turn], number)

    def close(self) -> None:
        """Release the files; nothing is written."""
        for file in self._files:
            file.close()


class Piece:
    """The lines with one number; they may be read as often as one likes."""

    def __init__(self, file: RecordFile, number: int) -> None:
        self._file, self._number = file, number

    def __iter__(self) -> Iterator[bytes]:
        for _, number, data in self._file.read(0, self._file.size):
            if number == self._number:
                yield data
