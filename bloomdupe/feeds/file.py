"""FeedFile: an output file that holds committed lines, and nothing else."""

from __future__ import annotations

import fcntl
import os
import stat
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from mmh3 import mmh3_x64_128_digest

from bloomdupe.errors import FeedChangedError, FeedError
from bloomdupe.store.descriptor import Descriptor
from bloomdupe.store.files import make_directory, sync_directory
from bloomdupe.store.platform import sync_data
from bloomdupe.store.system_errors import explained

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from typing_extensions import Self

TAIL_BYTES = 4096
"""Bytes at the end of a file by which it is recognized when a crawl goes on."""


class Stage(Enum):
    """How far the last piece has come; see the picture in the package's README."""

    COMMITTED = "durable in the job, and perhaps in the file, in part"
    WRITTEN = "in the file, and not synced"
    DURABLE = "durable in the file"


class Growth(NamedTuple):
    """What a file is after the next commit."""

    size: int
    tail: bytes
    """Its last 4,096 bytes."""

    def plus(self, data: bytes) -> Growth:
        """Return what it is with more bytes."""
        return Growth(self.size + len(data), (self.tail + data)[-TAIL_BYTES:])


class FeedFile:
    """A file that grows by pieces; each piece is committed before it is written.

    A piece is durable in the job before its commit, and written to the file only after
    it; the commit after that, before which the file is synced, drops it. So the file
    never holds uncommitted lines, and after a crash the job has everything that is
    missing in it. Any other content of the file comes from elsewhere.

    The store keeps, as JSON (:meth:`record`):

    ``base``     bytes that are durable in the file
    ``tail``     digest of the last 4,096 of them
    ``size``     bytes with the piece that is owed to the file
    ``due``      whether a piece is owed, or the file itself, which gets no line

    While a file is open, no other process that uses this class can write to it
    (``flock``).
    """

    def __init__(self, place: Path, size: int = 0) -> None:
        self.place = place
        """An absolute path: a spider may change the working directory."""
        self.base = Growth(size, tail_of(place, size) if size else b"")
        """What is durable in the file."""
        self.end = self.base
        """What is committed."""
        self._stage = Stage.DURABLE
        self._new = False
        self._file: Descriptor | None = None

    @classmethod
    def begin(cls, place: Path, *, overwrite: bool) -> Self:
        """Return a place before the first piece, to go on at its end.

        ``overwrite`` empties it. Raises :class:`~bloomdupe.errors.StoreError` if the
        place cannot be read, or emptied.
        """
        with explained(f"cannot write the feed {place}", place):
            try:
                found = place.stat()
            except FileNotFoundError:
                return cls(place)
            if not stat.S_ISREG(found.st_mode):
                raise FeedError(
                    f"cannot write the feed {place}: it is not a regular file"
                )
            if not overwrite or not found.st_size:
                return cls(place, found.st_size)
            file = cls(place)
            fd = file._opened()
            os.ftruncate(fd, 0)
            sync_data(fd)
            return file

    def record(self, end: Growth, *, due: bool = True) -> dict[str, Any]:
        """Return the record for the store when it is to grow to this end.

        ``due`` says that :meth:`append` has something to do then.
        """
        return {
            "base": self.base.size,
            "tail": digest(self.base.tail),
            "size": end.size,
            "due": due,
        }

    def take(self, end: Growth) -> None:
        """Accept a commit: :meth:`append` makes the file grow to this end."""
        self.end, self._stage = end, Stage.COMMITTED

    @property
    def due(self) -> bool:
        """Whether :meth:`append` has something to do."""
        return self._stage is Stage.COMMITTED

    def finish(self, piece: Iterable[bytes]) -> None:
        """Write the piece of the last run, which may be in the file in part.

        Also if the file has its end: a power cut may have left a hole before that.
        """
        end = self.base
        for data in piece:
            end = end.plus(data)
        self.take(end)
        self.append(piece)
        self.sync()

    def append(self, piece: Iterable[bytes]) -> None:
        """Write the piece, which has been committed, to the end of the file.

        Raises :class:`~bloomdupe.errors.BloomDupeError` if that fails; then the piece
        may be there in part.
        """
        if not self.due:
            return
        remedy = "what is missing is kept in the job: run the same command again"
        with explained(f"cannot write to the feed {self.place}", self.place, remedy):
            fd = self._opened()
            self._check_place(fd, piece)
            offset = self.base.size
            for data in piece:
                view = memoryview(data)
                while view:
                    written = os.pwrite(fd, view, offset)
                    view, offset = view[written:], offset + written
        self._stage = Stage.WRITTEN

    def sync(self) -> None:
        """Sync the file, so that the job may drop the piece."""
        if self._stage is not Stage.WRITTEN:
            return
        if self._file is None or self._file.closed:
            return  # in a fork, the store refuses the commit
        with explained(f"cannot write to the feed {self.place}", self.place):
            sync_data(self._file.fileno())
            if self._new:
                sync_directory(self.place.parent)
                self._new = False
        self._stage = Stage.DURABLE
        self.base = self.end

    def begins_with(self, head: bytes) -> bool:
        """Whether the file begins with these bytes."""
        return read_bytes(self.place, 0, len(head)) == head

    def close(self) -> None:
        """Release the file; nothing is written."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> int:
        if self._file is None:
            self._new = not os.path.lexists(self.place)
            make_directory(self.place.parent)
            self._file = Descriptor.open(self.place, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(self._file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.close()
                raise FeedError(
                    f"the feed {self.place} is being written by another feed or crawl:"
                    " a file belongs to one of them; name another file, such as one"
                    " with %(name)s in it, which stands for the spider"
                ) from None
            except OSError:
                pass  # no locks on this file system; the size shows other writers
        return self._file.fileno()

    def _check_place(self, fd: int, piece: Iterable[bytes]) -> None:
        """Refuse to write to a file that was changed while it was open."""
        change: str | None = "was deleted"
        if self.place.exists():
            same = os.path.samestat(self.place.stat(), os.fstat(fd))
            change = change_of(self.record(self.end), self.place, piece)
            change = change if same else "was replaced"
        if change is not None:
            raise FeedChangedError(
                f"the feed {self.place} {change} by another program while the crawl was"
                f" running, which had written {self.base.size:,} bytes to it"
            )


def change_of(
    record: dict[str, Any], place: Path, piece: Iterable[bytes]
) -> str | None:
    """Describe how a file differs from the states that a run may have left.

    Raises :class:`~bloomdupe.errors.StoreError` if the place cannot be read.
    """
    base, most = record["base"], record["size"]
    with explained(f"cannot continue the feed {place}", place):
        try:
            found = place.stat()
        except FileNotFoundError:
            return "was deleted" if base else None
        if not stat.S_ISREG(found.st_mode):
            return "was replaced by something that is not a file"
        if not base <= found.st_size <= most:
            how = "cut" if found.st_size < base else "lengthened"
            return f"was {how} to {found.st_size:,} bytes"
        if digest(tail_of(place, base)) != record["tail"]:
            return "was replaced or edited"
        for data in piece if found.st_size > base else ():
            if not _is_begun(read_bytes(place, base, base + len(data)), data):
                return "was replaced or edited"
            base += len(data)
    return None


def _is_begun(found: bytes, piece: bytes) -> bool:
    """Whether a piece may have been written in part.

    A power cut may leave zeros in the place of any of its sectors.
    """
    return piece.startswith(found) or all(
        now in (0, new) for now, new in zip(found, piece, strict=False)
    )


def digest(tail: bytes) -> str:
    """Return the digest that identifies the end of a file."""
    return mmh3_x64_128_digest(tail).hex()


def tail_of(place: Path, end: int) -> bytes:
    """Return the last 4,096 bytes before a position in a file."""
    return read_bytes(place, max(0, end - TAIL_BYTES), end)


def ends_at(place: Path, size: int, tail: str) -> bool:
    """Whether a file has this size, and a tail with this digest."""
    if not place.is_file() or place.stat().st_size != size:
        return False
    return digest(tail_of(place, size)) == tail


def read_bytes(place: Path, start: int, end: int) -> bytes:
    """Return a part of a file."""
    with place.open("rb") as file:
        file.seek(start)
        return file.read(end - start)
