"""Journal: a private file of the job with numbered records and their sums."""

from __future__ import annotations

import os
import zlib
from array import array
from struct import Struct
from struct import error as StructError  # noqa: N812 - as other exceptions
from typing import TYPE_CHECKING, Any

from bloomdupe.errors import FeedError
from bloomdupe.store.files import (
    Descriptor,
    make_directory,
    open_regular,
    sync_directory,
)
from bloomdupe.store.platform import sync_data
from bloomdupe.store.system_errors import explained

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

ITEM = (1 << 32) - 1
"""The number of an item, in the place of a feed's number."""

BLOCK = 1 << 18
"""Bytes that are written, or read, at once."""
MOST_BYTES = 1 << 23
"""A file with more bytes is deleted when its turn is over."""

_HEAD = Struct("<III")
"""Number, length and CRC-32 of a record, before its bytes."""


class Journal:
    """Records that are durable before they count, in one of two files that take turns.

    A job has two: ``lines`` begins anew with each checkpoint, and holds the pieces that
    files may lack. ``items`` has the items of all feeds that are written when the crawl
    has finished; an item is there once, after the indexes of its feeds.

    The store keeps the ``turn``, a number that is another one when the journal has
    begun anew, and the ``size`` of the file. Nothing counts before it is synced and
    this is committed. Bytes behind the size are of a process that was killed, and
    is overwritten. No other user can read the files. The sums depend on the turn, which
    distinguishes contents of the same place.

    The order is: :meth:`begin`, :meth:`add`, :meth:`seal`, (commit), :meth:`done`.
    """

    def __init__(self, directory: Path, name: str, record: dict[str, Any]) -> None:
        self._directory, self._name = directory, name
        self.turn = int(record.get("turn", 0))
        self.size = int(record.get("size", 0))
        """Bytes that are committed."""
        self._turn = self.turn
        self.end = self.size
        """Bytes with those just added."""
        self._files: dict[Path, Descriptor] = {}
        self._buffer = bytearray()
        self._unsynced = False

    @property
    def place(self) -> Path:
        """The file with the committed records."""
        return self._place(self.turn)

    def _place(self, turn: int) -> Path:
        return self._directory / f"{self._name}.{turn % 2}"

    # Writing

    def begin(self, *, anew: bool) -> None:
        """Take back records that are not committed; go on, or begin ``anew``."""
        self._buffer.clear()
        self._turn = self.turn + anew
        self.end = 0 if anew else self.size

    def add(self, number: int, data: bytes) -> None:
        """Add a record. Raises :class:`~bloomdupe.errors.StoreError`."""
        self._buffer += _HEAD.pack(number, len(data), _sum(data, self._turn))
        self._buffer += data
        self.end += _HEAD.size + len(data)
        if len(self._buffer) >= BLOCK:
            self._write()

    def seal(self) -> dict[str, Any]:
        """Make all records durable; return the record for the store."""
        self._write()
        if self._unsynced:
            with self._explained():
                sync_data(self._opened())
            self._unsynced = False
        return {"turn": self._turn, "size": self.end}

    def done(self) -> None:
        """Note that the sealed records are committed."""
        last, size = self.place, self.size
        self.turn, self.size = self._turn, self.end
        if last != self.place and size > MOST_BYTES:
            if last in self._files:
                self._files.pop(last).close()
            last.unlink(missing_ok=True)

    def _write(self) -> None:
        if not self._buffer:
            return
        offset = self.end - len(self._buffer)
        with self._explained(), memoryview(self._buffer) as view:
            fd, written = self._opened(), 0
            while written < len(view):
                written += os.pwrite(fd, view[written:], offset + written)
        self._buffer.clear()
        self._unsynced = True

    def _opened(self) -> int:
        place = self._place(self._turn)
        if place not in self._files:
            make_directory(self._directory, 0o700)
            new = not place.exists()
            flags = os.O_RDWR | os.O_CREAT
            self._files[place] = Descriptor.open_regular(place, flags)
            if new:
                sync_directory(self._directory)
        return self._files[place].fileno()  # in a fork, it is closed

    def _explained(self) -> AbstractContextManager[None]:
        place = self._place(self._turn)
        remedy = "nothing is lost: make room, and run the same command again"
        return explained(f"cannot write {place}", place, remedy)

    # Reading

    def records(self, start: int = 0) -> Iterator[tuple[int, int, bytes]]:
        """Yield the committed records: position behind it, number, bytes.

        Raises :class:`FeedError` if a record is not there as it was written.
        """
        end = self.size
        if start >= end:
            return
        try:
            with open(open_regular(self.place), "rb", BLOCK) as file:
                file.seek(start)
                while start < end:
                    number, length, total = _HEAD.unpack(file.read(_HEAD.size))
                    data = file.read(length)
                    start += _HEAD.size + length
                    if (len(data), _sum(data, self.turn)) != (length, total):
                        raise ValueError("a record has another sum")
                    if start > end:
                        raise ValueError("a record is too long")
                    yield start, number, data
        except (OSError, ValueError, StructError) as error:
            raise FeedError(
                f"{self.place}, which holds output of the job, is not as it was"
                f" written: {error}. Put it back from a backup"
            ) from error

    def is_complete(self) -> bool:
        """Whether the committed records are as they were written."""
        try:
            return all(True for _ in self.records())
        except FeedError:
            return False

    def close(self) -> None:
        """Release the files; nothing is written."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    # Items

    @staticmethod
    def packed(indexes: Iterable[int], item: bytes) -> bytes:
        """Return an item with the indexes of its feeds, to be added."""
        numbers = array("I", indexes).tobytes()
        return len(numbers).to_bytes(4, "little") + numbers + item

    @staticmethod
    def unpacked(data: bytes) -> tuple[array[int], bytes]:
        """Return the indexes and the item of a :meth:`packed` item.

        Raises :class:`ValueError` for other data.
        """
        size = 4 + int.from_bytes(data[:4], "little")
        numbers = array("I")
        numbers.frombytes(data[4:size])
        if len(data) < size:
            raise ValueError("it is no item")
        return numbers, data[size:]

    def items(self, index: int, start: int) -> Iterator[tuple[int, bytes]]:
        """Yield the committed items of a feed: position behind it, and the item.

        Raises :class:`FeedError` if the file is damaged.
        """
        for position, _, data in self.records(start):
            numbers, item = self.unpacked(data)
            if index in numbers:
                yield position, item


class Piece:
    """The records with one number; they may be read as often as one likes."""

    def __init__(self, journal: Journal, number: int) -> None:
        self._journal, self._number = journal, number

    def __iter__(self) -> Iterator[bytes]:
        for _, number, data in self._journal.records():
            if number == self._number:
                yield data


def _sum(data: bytes, turn: int) -> int:
    return zlib.crc32(data, turn & 0xFFFFFFFF)
