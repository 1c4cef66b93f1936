"""FeedFile: an output file that holds what has been committed, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmh3 import mmh3_x64_128_digest

from bloomdupe.errors import FeedChangedError, FeedError
from bloomdupe.place import free_space

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["FeedFile", "check_unchanged"]

TAIL_BYTES = 4096
"""How much of the end of a file is recognized when a crawl goes on."""


class FeedFile:
    """A file that grows piece by piece, each of them committed before it is written.

    A *piece* is committed to the store, bytes and all, and appended to the file only
    then; the next commit, before which the file is synced, drops it from the store.
    So the file never holds what is not committed, and after a crash everything that
    is missing in it is at hand. Whatever else is found in the file is not ours.

    ``state`` is what the store has to keep, besides the piece:

    ``path``     as it was given
    ``base``     bytes in the file before the piece
    ``tail``     digest of the last 4,096 of them
    ``written``  bytes with the piece
    """

    def __init__(self, path: str, size: int = 0, tail: bytes = b"") -> None:
        self.path = path
        self.size = size
        """Bytes in the file."""
        self.piece = b""
        """What is to be appended once it is committed."""
        self._tail = tail
        self._fd: int | None = None
        self._unsynced = False
        self._new = False

    @classmethod
    def begin(cls, path: str, *, overwrite: bool) -> Self:
        """Start a file, or go on at the end of what somebody has left there.

        Raises :class:`FeedError` if the place cannot be written to.
        """
        place = Path(path)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.exists():
                return cls(path)
            if overwrite:
                os.truncate(path, 0)
            size = place.stat().st_size
            return cls(path, size, _read(place, max(0, size - TAIL_BYTES), size))
        except OSError as error:
            raise FeedError(f"cannot write the feed {path}: {error}") from error

    @classmethod
    def resume(
        cls, state: dict[str, Any], piece: bytes, length: int, *, accept: bool
    ) -> Self:
        """Take up a file as the last commit has left it, and finish it.

        ``length`` is how much of it to keep, if that is less than what was
        committed. Raises :class:`FeedChangedError` if it is not as it was left,
        unless ``accept`` takes it for what it is now.
        """
        path, base = state["path"], state["base"]
        place = Path(path)
        try:
            if not accept:
                check_unchanged(state, piece)
            elif _changes(place, base, state["tail"], piece):
                base = place.stat().st_size if place.exists() else 0
                length = base + len(piece)
            self = cls(path, base)
            self.piece = piece
            self.append(begun=True)
            if length < self.size:
                os.truncate(self._opened(), length)
            self.sync()
            self.size = min(length, self.size)
            if self.size:
                self._tail = _read(place, max(0, self.size - TAIL_BYTES), self.size)
        except FeedError:
            raise
        except OSError as error:
            raise FeedError(f"cannot continue the feed {path}: {error}") from error
        return self

    @property
    def state(self) -> dict[str, Any]:
        """What the store has to keep, besides the piece."""
        return {
            "path": self.path,
            "base": self.size,
            "tail": _digest(self._tail),
            "written": self.size + len(self.piece),
        }

    def append(self, *, begun: bool = False) -> None:
        """Write the piece, which has been committed, to the end of the file.

        ``begun`` says that a part of it may be there already.
        """
        if not self.piece:
            return
        try:
            fd = self._opened()
            self._check_place(fd, self.size + (len(self.piece) if begun else 0))
            view = memoryview(self.piece)
            while view:
                written = os.pwrite(fd, view, self.size)
                view = view[written:]
                self.size += written
        except OSError as error:
            if isinstance(error, FeedError):
                raise
            raise FeedError(
                f"cannot write to the feed {self.path}: {error}"
                f"{free_space(Path(self.path))}; what is missing in it is kept in the"
                " store, and written when the crawl goes on"
            ) from error
        self._tail = (self._tail + self.piece)[-TAIL_BYTES:]
        self.piece = b""
        self._unsynced = True

    def sync(self) -> None:
        """Make sure that the file is on disk."""
        if not self._unsynced or self._fd is None:
            return
        try:
            os.fdatasync(self._fd)
            if self._new:
                _sync_directory(Path(self.path).parent)
                self._new = False
        except OSError as error:
            raise FeedError(f"cannot write to the feed {self.path}: {error}") from error
        self._unsynced = False

    def touch(self) -> None:
        """Create the file if it is not there."""
        self._opened()

    def close(self) -> None:
        """Release the file; nothing is written."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _opened(self) -> int:
        if self._fd is None:
            self._new = not os.path.lexists(self.path)
            Path(self.path).parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(
                self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666
            )
        return self._fd

    def _check_place(self, fd: int, most: int) -> None:
        """Refuse to write to a file that others have changed while it was open."""
        ours = os.fstat(fd)
        place = Path(self.path)
        if not place.exists():
            what = "was deleted"
        elif not os.path.samestat(place.stat(), ours):
            what = "was replaced"
        elif ours.st_size < self.size:
            what = f"was cut to {ours.st_size:,} bytes"
        elif ours.st_size > most:
            what = f"has grown to {ours.st_size:,} bytes"
        else:
            return
        raise FeedChangedError(
            f"the feed {self.path} {what} by somebody else while the crawl was running,"
            f" which had written {self.size:,} bytes to it"
        )


def check_unchanged(state: dict[str, Any], piece: bytes) -> None:
    """Raise :class:`FeedChangedError` if a file is not as a run has left it."""
    path, base = state["path"], state["base"]
    reason = _changes(Path(path), base, state["tail"], piece)
    if reason:
        raise FeedChangedError(
            f"the feed {path} {reason} since the last run, which left"
            f" {base + len(piece):,} bytes in it. Put it back as it was; or set"
            ' BLOOMDUPE_FEED_CHANGED = "accept" to go on at its end as it is now (what'
            " has gone from it is not scraped again); or give the new crawl another"
            " JOBDIR"
        )


def _changes(place: Path, base: int, tail: str, piece: bytes) -> str | None:
    """Say how a file differs from what a run has left, or may have left."""
    if not place.exists():
        return "was deleted" if base else None
    if not place.is_file():
        return "was replaced by something that is not a file"
    size = place.stat().st_size
    if size < base:
        return f"was cut to {size:,} bytes"
    if size > base + len(piece):
        return f"has grown to {size:,} bytes"
    if not size:
        return None
    if _digest(_read(place, max(0, base - TAIL_BYTES), base)) != tail:
        return "was replaced or edited"
    begun = _read(place, base, size)
    # A power cut may leave zeros where data did not reach the disk any more.
    if piece.startswith((begun, begun.rstrip(b"\0"))):
        return None
    return "was appended to"


def _digest(tail: bytes) -> str:
    return mmh3_x64_128_digest(tail).hex()


def _read(place: Path, start: int, end: int) -> bytes:
    with place.open("rb") as file:
        file.seek(start)
        return file.read(end - start)


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
