"""RecordFile: a private file of the job with numbered records and their sums."""

from __future__ import annotations

import os
import zlib
from contextlib import contextmanager
from struct import Struct
from struct import error as StructError  # noqa: N812 - as other exceptions
from typing import TYPE_CHECKING

from bloomdupe.errors import FeedError
from bloomdupe.store.descriptor import Descriptor, open_regular
from bloomdupe.store.files import free_space, make_directory, sync_directory
from bloomdupe.store.platform import sync_data

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_HEAD = Struct("<III")
"""Number, length and CRC-32 of a record, before its bytes."""
BLOCK = 1 << 18
"""Bytes that are written, or read, at once."""


class RecordFile:
    """A file to which records are added; the store knows how many of its bytes count.

    Nothing counts before it is synced and the new ``size`` is committed. Whatever is
    behind that is of a process that was killed, and is overwritten. No other user can
    read the file. The sums depend on ``number``, which tells contents of the same place
    apart.
    """

    def __init__(self, place: Path, size: int = 0, number: int = 0) -> None:
        self.place = place
        self.size = size
        """Bytes that count, with those just added."""
        self.number = number
        self._file: Descriptor | None = None
        self._buffer = bytearray()
        self._unsynced = False

    def add(self, number: int, data: bytes) -> None:
        """Add a record; it is durable after :meth:`sync`. Raises :class:`FeedError`."""
        self._buffer += _HEAD.pack(number, len(data), self._sum(data))
        self._buffer += data
        self.size += _HEAD.size + len(data)
        if len(self._buffer) >= BLOCK:
            self._write()

    def cut_back(self, size: int) -> None:
        """Take back what was added since it had this size; nothing is written."""
        self._buffer.clear()
        self.size = size

    def sync(self) -> None:
        """Make all records durable. Raises :class:`FeedError`."""
        self._write()
        if self._unsynced:
            with _in_our_words(self.place):
                sync_data(self._opened())
            self._unsynced = False

    def _write(self) -> None:
        if not self._buffer:
            return
        offset = self.size - len(self._buffer)
        with _in_our_words(self.place), memoryview(self._buffer) as view:
            fd, written = self._opened(), 0
            while written < len(view):
                written += os.pwrite(fd, view[written:], offset + written)
        self._buffer.clear()
        self._unsynced = True

    def _opened(self) -> int:
        if self._file is None:
            directory = self.place.parent
            make_directory(directory, 0o700)
            new = not self.place.exists()
            self._file = Descriptor.open_regular(self.place, os.O_RDWR | os.O_CREAT)
            if new:
                sync_directory(directory)
        return self._file.fileno()  # in a fork, it is closed

    def read(self, start: int, end: int) -> Iterator[tuple[int, int, bytes]]:
        """Yield the records between two positions: position behind it, number, bytes.

        Raises :class:`FeedError` if a record is not there as it was written.
        """
        if start >= end:
            return
        try:
            with open(open_regular(self.place), "rb", BLOCK) as file:  # noqa: PTH123
                file.seek(start)
                while start < end:
                    number, length, total = _HEAD.unpack(file.read(_HEAD.size))
                    data = file.read(length)
                    start += _HEAD.size + length
                    if len(data) < length or self._sum(data) != total or start > end:
                        raise ValueError("a record has another sum")  # noqa: TRY301
                    yield start, number, data
        except (OSError, ValueError, StructError) as error:
            raise FeedError(
                f"{self.place}, which holds output of the job, is not as it was"
                f" written: {error}. Put it back from a backup"
            ) from error

    def _sum(self, data: bytes) -> int:
        return zlib.crc32(data, self.number & 0xFFFFFFFF)

    def close(self) -> None:
        """Release the file; nothing is written."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def delete(self) -> None:
        """Delete the file."""
        self.close()
        self.place.unlink(missing_ok=True)


@contextmanager
def _in_our_words(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FeedError(
            f"cannot write {place}: {error}{free_space(place)}; nothing is lost: make"
            " room, and run the same command again"
        ) from error
