"""Journal: a private file of the job with records of feeds and their sums."""

from __future__ import annotations

import os
import secrets
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
    write_bytes,
)
from bloomdupe.store.platform import sync_data
from bloomdupe.store.system_errors import explained

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

ITEM = (1 << 32) - 1
"""The number of an item, in the place of a feed's number."""

BLOCK = 1 << 18
"""Bytes that are written, or read, at once."""
MOST_BYTES = 1 << 23
"""Bytes behind the records that are kept, for the next records."""

_HEAD = Struct("<II")
"""Length and CRC-32 of a record, before its bytes."""


class Journal:
    """Records in a file that are durable before they count.

    A job has two: ``lines`` begins anew with each checkpoint, and holds the pieces that
    feeds may lack. ``items`` has the items of all feeds that are written when the crawl
    has finished; an item is there once, for all its feeds.

    The store keeps the ``turn``, a number that is drawn when the journal begins anew,
    and the ``size`` of its records. Nothing counts before it is synced and
    this is committed. Bytes behind the size are of a process that was killed, and
    are overwritten. So are all records when the journal begins anew, before that is
    committed: by then all feeds have them. No other user can read the file. The sums
    depend on the turn, which distinguishes contents of the same place.

    The order is: :meth:`begin`, :meth:`add`, :meth:`seal`, (commit), :meth:`done`.
    """

    def __init__(self, place: Path, record: dict[str, Any]) -> None:
        self.place = place
        self.turn = int(record.get("turn", 0))
        self.size = int(record.get("size", 0))
        """Bytes that are committed."""
        self._turn = self.turn
        self.end = self.size
        """Bytes with those just added."""
        self._file: Descriptor | None = None
        self._buffer = bytearray()
        self._unsynced = False

    # Writing

    def begin(self, *, anew: bool = False) -> None:
        """Take back records that are not committed; go on, or begin ``anew``."""
        self._buffer.clear()
        if anew:
            self._turn = secrets.randbits(32)
        self.end = self.size if self._turn == self.turn else 0

    def add(self, data: bytes) -> None:
        """Add what is :func:`packed`. Raises :class:`~bloomdupe.errors.StoreError`."""
        self._buffer += _HEAD.pack(len(data), _sum(data, self._turn))
        self._buffer += data
        self.end += _HEAD.size + len(data)
        if len(self._buffer) >= BLOCK:
            self._write()

    def seal(self) -> dict[str, Any]:
        """Make all records durable; return the record for the store."""
        self._write(durably=True)
        return {"turn": self._turn, "size": self.end}

    def done(self) -> None:
        """Note that the sealed records are committed."""
        room = self.size - self.end
        self.turn, self.size = self._turn, self.end
        if room > MOST_BYTES:
            with explained(f"cannot shorten {self.place}", self.place):
                os.ftruncate(self._opened(), self.size)

    def _write(self, *, durably: bool = False) -> None:
        remedy = "nothing is lost: make room, and run the same command again"
        with explained(f"cannot write {self.place}", self.place, remedy):
            if self._buffer:
                with memoryview(self._buffer) as view:
                    write_bytes(self._opened(), view, self.end - len(view))
                self._buffer.clear()
                self._unsynced = True
            if durably and self._unsynced:
                sync_data(self._opened())
                self._unsynced = False

    def _opened(self) -> int:
        if self._file is None:
            make_directory(self.place.parent, 0o700)
            new = not self.place.exists()
            flags = os.O_RDWR | os.O_CREAT
            self._file = Descriptor(open_regular(self.place, flags))
            if new:
                sync_directory(self.place.parent)
        return self._file.fileno()  # in a fork, it is closed

    # Reading

    def of(self, feed: int, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield the committed records of a feed: position behind it, and its bytes.

        Raises :class:`FeedError` if a record is not there as it was written.
        """
        end = self.size
        if start >= end:
            return
        try:
            with open(open_regular(self.place), "rb", BLOCK) as file:
                file.seek(start)
                while start < end:
                    length, total = _HEAD.unpack(file.read(_HEAD.size))
                    data = file.read(length)
                    start += _HEAD.size + length
                    if (len(data), _sum(data, self.turn)) != (length, total):
                        raise ValueError("a record has another sum")
                    feeds, data = unpacked(data)
                    if feed in feeds:
                        yield start, data
        except (OSError, ValueError, StructError) as error:
            raise FeedError(
                f"{self.place}, which holds output of the job, is not as it was"
                f" written: {error}. Put it back from a backup"
            ) from error

    def close(self) -> None:
        """Release the files; nothing is written."""
        if self._file is not None:
            self._file.close()
            self._file = None


def packed(feeds: Iterable[int], data: bytes | bytearray) -> bytes:
    """Return the bytes of an item, or of lines, with the numbers of their feeds."""
    numbers = array("I", feeds).tobytes()
    return len(numbers).to_bytes(4, "little") + numbers + data


def unpacked(record: bytes) -> tuple[array[int], bytes]:
    """Return the numbers and the bytes that are :func:`packed`.

    Raises :class:`ValueError` for other data.
    """
    size = 4 + int.from_bytes(record[:4], "little")
    numbers = array("I")
    numbers.frombytes(record[4:size])
    if len(record) < size:
        raise ValueError("it is no item")
    return numbers, record[size:]


def _sum(data: bytes, turn: int) -> int:
    return zlib.crc32(data, turn)
