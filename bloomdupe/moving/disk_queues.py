"""Disk queues: reads the queues of queuelib on disk, oldest item first.

=========== =====================================================================
queue       on disk
=========== =====================================================================
Lifo        a file: number of items u32 (big-endian), written when it is closed;
            for each item its bytes, and their number u32
Fifo        a folder: ``info.json``, written when it is closed, with ``chunksize``,
            ``size``, ``head`` (number of the file that is written to, items in it)
            and ``tail`` (number of the file that is read, items and bytes read);
            files ``q00000`` and so on, for each item the number of its bytes u32
            (big-endian), and the bytes
SQLite      a database with a table ``queue`` of ``id`` and ``item``
=========== =====================================================================

The format is that of ``queuelib/queue.py`` in queuelib 1.6 to 1.10. The queues are not
changed. A queue that was not closed is refused, because its number of items or its
``info.json`` is wrong.
"""

from __future__ import annotations

import os
import sqlite3
from array import array
from contextlib import ExitStack, closing
from operator import index
from struct import Struct
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from bloomdupe.errors import StoreError
from bloomdupe.foreign import LARGEST, json_of
from bloomdupe.store.descriptor import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SIZE = Struct(">L")
MOST_NAMED = 2_000_000
"""Values in a JSON file: the names of slots and their priorities."""
_SQLITE = b"SQLite format 3\0"


def size_of(place: Path) -> int:
    """Count the items of a queue; raises :class:`StoreError` if it was not closed."""
    if place.is_dir():
        info = _info(place)
        return 0 if info is None else info.size
    with _opened(place) as file:
        head = file.read(len(_SQLITE))
    if head == _SQLITE:
        with _connected(place) as database:
            (count,) = database.execute("SELECT COUNT(*) FROM queue").fetchone()
            return int(count)
    return len(_ends(place))


def json_of_file(place: Path) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value in a JSON file; raises :class:`ValueError` for other files."""
    with _opened(place) as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"it is longer than {LARGEST:,} bytes")
    return json_of(data, MOST_NAMED)


def items_of(place: Path) -> Iterator[bytes | None]:
    """Yield the items of a queue, the oldest first; None for an item that is too large.

    Memory: 8 bytes for each item of a Lifo queue. Raises :class:`StoreError` if it was
    not closed, or is not a queue.
    """
    if place.is_dir():
        yield from _fifo(place)
        return
    with _opened(place) as file:
        head = file.read(len(_SQLITE))
    if head == _SQLITE:
        with _connected(place) as database:
            found = database.execute(
                "SELECT CASE WHEN length(item) <= ? THEN item END FROM queue"
                " ORDER BY id",
                (LARGEST,),
            )
            for (item,) in found:
                yield item if isinstance(item, bytes) else None
        return
    yield from _lifo(place)


def _unclosed(place: Path, what: str) -> StoreError:
    return StoreError(
        f"{place}: {what}: Scrapy has not closed this queue, so requests of the job are"
        " missing, and it cannot be imported whole. Scrapy itself would go on with"
        " the rest"
    )


def _ends(place: Path) -> array[int]:
    """Return where the items of a Lifo queue end, the newest first."""
    ends = array("Q")
    with _opened(place) as file:
        head = file.read(_SIZE.size)
        if len(head) < _SIZE.size:
            raise _unclosed(place, "it is cut off")
        (count,) = _SIZE.unpack(head)
        at = file.seek(0, 2)
        while at > _SIZE.size:
            at -= _SIZE.size
            file.seek(max(at, 0))
            (size,) = _SIZE.unpack(file.read(_SIZE.size))
            if not size or len(ends) == count:
                break
            ends.append(at)
            at -= size
        if at != _SIZE.size or len(ends) != count:
            raise _unclosed(
                place, f"it does not hold the {count:,} items of its header"
            )
    return ends


def _lifo(place: Path) -> Iterator[bytes | None]:
    ends = _ends(place)
    start = _SIZE.size
    with _opened(place) as file:
        for end in reversed(ends):
            file.seek(start)
            yield file.read(end - start) if end - start <= LARGEST else None
            start = end + _SIZE.size


class _Info(NamedTuple):
    size: int
    number: int
    """Number of the file that is read."""
    start: int
    """Bytes of it that were read already."""


def _info(place: Path) -> _Info | None:
    """Read the state of a Fifo queue; None if it never had an item."""
    chunks = list(place.glob("q*"))
    info = place / "info.json"
    if not info.exists():
        if any(chunk.stat().st_size for chunk in chunks):
            raise _unclosed(place, "there is no info.json")
        return None
    try:
        found = json_of_file(info)
        first, read, start = map(_count, found["tail"])
        last, written = map(_count, found["head"])
        held = (last - first) * found["chunksize"] + written - read
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"{info} is damaged: {error!r}") from error
    if held != found["size"]:
        raise _unclosed(place, f"{info.name} contradicts itself")
    return _Info(held, first, start)


def _fifo(place: Path) -> Iterator[bytes | None]:
    info = _info(place)
    if info is None:
        return
    left, number, start = info
    while left:
        chunk = place / f"q{number:05d}"
        if not chunk.exists():
            raise _unclosed(place, f"{chunk.name} is missing")
        with _opened(chunk) as file:
            whole = os.fstat(file.fileno()).st_size
            file.seek(start)
            while head := file.read(_SIZE.size):
                if len(head) < _SIZE.size:
                    raise _unclosed(place, f"{chunk.name} is cut off")
                (size,) = _SIZE.unpack(head)
                item = file.read(size) if size <= LARGEST else None
                if item is None:
                    file.seek(size, os.SEEK_CUR)
                if file.tell() > whole or not left or (item and len(item) < size):
                    raise _unclosed(
                        place,
                        f"{chunk.name} has a wrong number of items",
                    )
                yield item
                left -= 1
        number, start = number + 1, 0


def _count(given: object) -> int:
    """Return a number that is not negative."""
    found = index(given)  # type: ignore[arg-type]
    if found < 0:
        raise ValueError(f"{found} is no number of items or bytes")
    return found


def _opened(place: Path) -> BinaryIO:
    """Open a file, which is neither a pipe nor a device."""
    return os.fdopen(open_regular(place), "rb")


def _connected(place: Path) -> closing[sqlite3.Connection]:
    if place.with_name(place.name + "-journal").exists():
        raise _unclosed(place, "a transaction was cut off")
    found = closing(sqlite3.connect(f"{place.absolute().as_uri()}?mode=ro", uri=True))
    with ExitStack() as undo:
        database = undo.enter_context(found)
        try:
            _check_table(place, database)
        except sqlite3.Error as error:
            raise StoreError(f"{place} is damaged: {error}") from error
        undo.pop_all()
    return found


def _check_table(place: Path, database: sqlite3.Connection) -> None:
    """Refuse a view or a computed column: they could make up any items."""
    kinds = database.execute("SELECT type FROM sqlite_master WHERE name = 'queue'")
    columns = database.execute("PRAGMA table_info(queue)")  # names no computed ones
    plain = kinds.fetchall() == [("table",)]
    if not plain or {"id", "item"} - {column[1] for column in columns}:
        raise StoreError(f"{place} has no table of a queue of Scrapy's")
