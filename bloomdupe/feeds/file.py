"""FeedFile: an output file that holds committed lines, and nothing else."""

from __future__ import annotations

import fcntl
import os
import stat
from typing import TYPE_CHECKING

from bloomdupe.errors import FeedChangedError, FeedError
from bloomdupe.store.files import Descriptor, make_directory, sync_directory
from bloomdupe.store.platform import sync_data
from bloomdupe.store.system_errors import explained

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class FeedFile:
    """A file that grows by pieces; each piece is committed before it is written.

    A piece is durable in the job before its commit, and written to the file only after
    it; the commit after that, before which the file is synced, drops it. So the file
    never holds uncommitted lines, and after a crash the job has everything that is
    missing in it. Any other content of the file comes from elsewhere.

    The store keeps ``base``, the bytes that are durable in the file, and ``size``, the
    bytes with the piece that is not appended yet; ``left`` is what the last run has
    left there. ``overwrite`` says that a new crawl empties the file.

    While a file is open, no other process that uses this class can write to it
    (``flock``).
    """

    def __init__(
        self,
        place: Path,
        left: dict[str, int] | None = None,
        *,
        overwrite: bool = False,
    ) -> None:
        self.place = place
        """An absolute path: a spider may change the working directory."""
        self.begun = left is not None
        """Whether a commit says that the crawl writes to it."""
        self.base, self.end = (left["base"], left["size"]) if left else (0, 0)
        """The bytes that are durable in the file, and those that are committed."""
        self.ours = self.begun
        """Whether the crawl has ever written to it: then it never empties it again."""
        self._overwrite = overwrite
        self._written = False
        self._file: Descriptor | None = None

    def begin(self) -> None:
        """Go on at the end of what is there, before the first piece; or empty it.

        Raises :class:`~bloomdupe.errors.BloomDupeError` if it cannot be opened.
        """
        with explained(f"cannot write the feed {self.place}", self.place):
            fd = self._opened()
            size = os.fstat(fd).st_size
            if size and self._overwrite and not self.ours:
                os.ftruncate(fd, 0)
                sync_data(fd)
                size = 0
        self.base = self.end = size

    def append(self, piece: Iterable[bytes]) -> None:
        """Write the piece, which has been committed, to the end of the file.

        Raises :class:`~bloomdupe.errors.BloomDupeError` if that fails; then the piece
        may be there in part.
        """
        if self._written or self.end == self.base:
            return
        remedy = "what is missing is kept in the job: run the same command again"
        with explained(f"cannot write to the feed {self.place}", self.place, remedy):
            fd = self._opened()
            self._check_place(fd, piece)
            offset = self.base
            for data in piece:
                write_bytes(fd, data, offset)
                offset += len(data)
        self._written = True

    def sync(self) -> None:
        """Sync the file, so that the job may drop the piece."""
        if not self._written or self._file is None or self._file.closed:
            return  # it is closed in a fork, where the store refuses the commit
        with explained(f"cannot write to the feed {self.place}", self.place):
            sync_data(self._file.fileno())
        self._written = False
        self.base = self.end

    def joint(self, head: bytes) -> bytes:
        """Return the text between the present content and the first line of a crawl.

        ``head`` is the line at the beginning of a file.
        """
        if self.base:
            if read_bytes(self.place, 0, len(head)) == head:
                head = b""  # the columns are the same
            if read_bytes(self.place, self.base - 1, self.base) != b"\n":
                head = b"\n" + head
        return head

    def close(self) -> None:
        """Release the file; nothing is written."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> int:
        if self._file is None:
            new = not os.path.lexists(self.place)
            make_directory(self.place.parent)
            fd = os.open(self.place, os.O_RDWR | os.O_CREAT, 0o666)
            self._file = Descriptor(fd)
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
            if new:
                sync_directory(self.place.parent)
        return self._file.fileno()

    def _check_place(self, fd: int, piece: Iterable[bytes]) -> None:
        """Refuse to write to a file that was changed while it was open."""
        change: str | None = "was deleted"
        if self.place.exists():
            same = os.path.samestat(self.place.stat(), os.fstat(fd))
            change = change_of(self.base, self.end, self.place, piece)
            change = change if same else "was replaced"
        if change is not None:
            raise FeedChangedError(
                f"the feed {self.place} {change} by another program while the crawl was"
                f" running, which had written {self.base:,} bytes to it"
            )


def change_of(base: int, most: int, place: Path, piece: Iterable[bytes]) -> str | None:
    """Describe how a file differs from the states that a run may have left.

    It has ``base`` bytes then, and a part of the piece, ``most`` bytes altogether.

    Raises :class:`~bloomdupe.errors.StoreError` if the place cannot be read.
    """
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
        for data in piece if found.st_size > base else ():
            if not _is_begun(read_bytes(place, base, base + len(data)), data):
                return f"has other content after {base:,} bytes"
            base += len(data)
    return None


def _is_begun(found: bytes, piece: bytes) -> bool:
    """Whether a piece may have been written in part.

    A power cut may leave zeros in the place of any of its sectors.
    """
    return piece.startswith(found) or all(
        now in (0, new) for now, new in zip(found, piece, strict=False)
    )


def read_bytes(place: Path, start: int, end: int) -> bytes:
    """Return a part of a file."""
    with place.open("rb") as file:
        file.seek(start)
        return file.read(end - start)


def write_bytes(fd: int, data: bytes | memoryview, offset: int) -> None:
    """Write all of the data to this place of an open file."""
    end = offset + len(data)
    while offset < end:
        offset += os.pwrite(fd, data[offset - end :], offset)
