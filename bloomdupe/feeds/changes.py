"""Changes: differences between a file and the record that the last run has left."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any, NoReturn

from bloomdupe.errors import FeedChangedError, FeedError
from bloomdupe.feeds.content import TAIL_BYTES, digest, read_bytes

__all__ = ["change_of", "is_old", "refuse"]


def change_of(record: dict[str, Any], piece: bytes) -> str | None:
    """Describe how a file differs from the states that a run may have left.

    A record with ``mark`` belongs to a file that is to be cut back to that mark, and
    may have been cut already. Raises :class:`FeedError` if the place cannot be read.
    """
    try:
        return _change_of(record, piece)
    except OSError as error:
        path = record["path"]
        raise FeedError(f"cannot continue the feed {path}: {error}") from error


def _change_of(record: dict[str, Any], piece: bytes) -> str | None:
    place = Path(record["path"])
    mark = record.get("mark")
    if mark is not None and _is_cut_back(place, *mark):
        return None
    base, end = record["base"], bytes.fromhex(record.get("end", ""))
    try:
        found_there = place.stat()
    except FileNotFoundError:
        return "was deleted" if base or (end and not piece) else None
    if not stat.S_ISREG(found_there.st_mode):
        return "was replaced by something that is not a file"
    size = found_there.st_size
    if is_old(record):
        return None
    if size < base:
        return f"was cut to {size:,} bytes"
    if size > base + max(len(piece), len(end)):
        return f"has grown to {size:,} bytes"
    if digest(read_bytes(place, max(0, base - TAIL_BYTES), base)) != record["tail"]:
        return "was replaced or edited"
    found = read_bytes(place, base, size)
    if not piece:
        return None if found == end else "was replaced or edited"
    return None if _is_begun(found, end, piece) else "was appended to"


def refuse(record: dict[str, Any], piece: bytes, change: str) -> NoReturn:
    """Raise :class:`FeedChangedError` for a file that has changed since a run."""
    left = record["base"] + (len(piece) or len(record.get("end", "")) // 2)
    raise FeedChangedError(
        f"the feed {record['path']} {change} since the last run, which left"
        f" {left:,} bytes in it. Put it back as it was; or set"
        ' BLOOMDUPE_FEED_CHANGED = "accept" to go on at its end as it is now (what'
        " has gone from it is not scraped again); or give the new crawl another"
        " JOBDIR"
    )


def is_old(record: dict[str, Any]) -> bool:
    """Whether a file still has the content that was to be replaced."""
    old = record.get("old")
    return old is not None and _ends_at(Path(record["path"]), *old)


def _is_cut_back(place: Path, length: int, tail: str) -> bool:
    if not place.exists():
        return not length
    return _ends_at(place, length, tail)


def _ends_at(place: Path, size: int, tail: str) -> bool:
    if not place.is_file() or place.stat().st_size != size:
        return False
    return digest(read_bytes(place, max(0, size - TAIL_BYTES), size)) == tail


def _is_begun(found: bytes, end: bytes, piece: bytes) -> bool:
    """Whether a piece may have been partly written over the closing bytes of the file.

    A power cut may leave any of its sectors unchanged, or zeros beyond the old end.
    """
    if piece.startswith((found, found.rstrip(b"\0"))):
        return True
    before = end.ljust(len(found), b"\0")
    after = piece.ljust(len(found), b"\0")
    return all(
        now in (old, new) for now, old, new in zip(found, before, after, strict=False)
    )
