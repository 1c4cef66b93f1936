"""Content: the present content of an output file, and the piece to be written next."""

from __future__ import annotations

import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmh3 import mmh3_x64_128_digest

from bloomdupe.errors import FeedError

if TYPE_CHECKING:
    from typing_extensions import Self

TAIL_BYTES = 4096
"""Bytes at the end of a file by which it is recognized when a crawl goes on."""


@dataclass(frozen=True)
class Content:
    """The content of a file, and the piece that is to be written to it next.

    A file has ``base`` bytes that stay as they are. After them comes ``end``, the bytes
    that close the file (the bracket of a JSON list, say; mostly it is empty). A *piece*
    is written over ``end``; its last ``closing`` bytes close the file anew. Lines that
    are *held* are committed, too; they stay in the store until there are enough of them
    to be compressed, and make up a piece then.

    The store keeps, as JSON (:meth:`record`), besides the piece and the held lines:

    ``path``     as it was given
    ``base``     bytes
    ``tail``     digest of the last 4,096 of them
    ``end``      as hexadecimal digits
    ``closing``  bytes
    ``old``      size, and digest of the last 4,096 bytes, of the earlier content that
                 the first piece replaces (``overwrite``); or null
    ``held``     bytes
    """

    path: str
    place: Path
    """The same as an absolute path: a spider may change the working directory."""
    base: int = 0
    tail: bytes = b""
    """The last 4,096 bytes of ``base``."""
    end: bytes = b""
    piece: bytes = b""
    closing: int = 0
    old: tuple[int, str] | None = None
    held: bytes = b""
    """Not compressed."""

    @classmethod
    def begin(cls, path: str, place: Path, *, overwrite: bool) -> Self:
        """Return the content of a place before the first piece, to go on at its end.

        ``overwrite`` replaces that content. Nothing is changed. Raises
        :class:`FeedError` if the place cannot be read.
        """
        try:
            found = place.stat()
            if not stat.S_ISREG(found.st_mode):
                raise FeedError(
                    f"cannot write the feed {path}: it is not a regular file"
                )
            size = found.st_size
            tail = tail_of(place, size)
        except FileNotFoundError:
            return cls(path, place)
        except OSError as error:
            if isinstance(error, FeedError):
                raise
            raise FeedError(f"cannot write the feed {path}: {error}") from error
        if overwrite and size:
            return cls(path, place, old=(size, digest(tail)))
        return cls(path, place, size, tail)

    def with_more(self, data: bytes, closing: bytes) -> Self:
        """Return the content with more data and these closing bytes."""
        body = self._body + data
        return replace(self, piece=body + closing, closing=len(closing), held=b"")

    def with_held(self, data: bytes) -> Self:
        """Return the content with these held lines instead of the earlier lines."""
        return replace(self, held=data)

    def begins_with(self, head: bytes) -> bool:
        """Whether the file begins with these bytes."""
        return read_bytes(self.place, 0, len(head)) == head

    @property
    def _body(self) -> bytes:
        return self.piece[: len(self.piece) - self.closing]

    @property
    def length(self) -> int:
        """Bytes in the file with the piece, without the closing bytes."""
        return self.base + len(self._body)

    @property
    def size(self) -> int:
        """Bytes in the file with the piece and the closing bytes."""
        return self.base + len(self.piece or self.end)

    @property
    def mark(self) -> tuple[int, str]:
        """Length, and the digest of the last 4,096 bytes before it."""
        return self.length, digest(self._tail)

    @property
    def _tail(self) -> bytes:
        return (self.tail + self._body)[-TAIL_BYTES:]

    def written(self) -> Self:
        """Return the content after the piece is written and dropped by the store."""
        end = self.piece[len(self.piece) - self.closing :]
        return replace(
            self,
            base=self.length,
            tail=self._tail,
            end=end if self.piece else self.end,
            piece=b"",
            closing=0,
            old=None,
        )

    @property
    def record(self) -> dict[str, Any]:
        """Record for the store, without the piece."""
        return {
            "path": self.path,
            "base": self.base,
            "tail": digest(self.tail),
            "end": self.end.hex(),
            "closing": self.closing,
            "old": self.old,
            "held": len(self.held),
        }

    @classmethod
    def of(cls, record: dict[str, Any], piece: bytes) -> Self:
        """Return the content of a file according to its record and its piece.

        Raises :class:`FeedError` if the place cannot be read.
        """
        path, place, base = record["path"], Path(record["place"]), record["base"]
        old = record.get("old")
        try:
            return cls(
                path,
                place,
                base,
                tail_of(place, base) if base else b"",
                bytes.fromhex(record.get("end", "")),
                piece,
                record.get("closing", 0) if piece else 0,
                None if old is None else (old[0], old[1]),
            )
        except OSError as error:
            raise FeedError(f"cannot continue the feed {path}: {error}") from error


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
