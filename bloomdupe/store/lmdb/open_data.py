"""OpenData: the data file of an open store, and its mark.

The mark is the file ``clean.json`` beside it. If that cannot be written, no harm is
done: the next run checks the whole data file.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from time import time_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.errors import StoreError, StoreIOError
from bloomdupe.store import files
from bloomdupe.store.files import Descriptor
from bloomdupe.store.format import META, checksum, last_backup, meta_records
from bloomdupe.store.platform import boot_id
from bloomdupe.store.system_errors import explained

if TYPE_CHECKING:
    from pathlib import Path

MARK_BYTES = 400
COMMIT_NANOSECONDS = 5 * 10**9
"""A change of the data file within this time of the beginning of an interrupted commit
is its own."""


class CleanMark(NamedTuple):
    """State of the data file after the last transaction.

    Writing to a file changes these numbers, and so does copying it. As long as they are
    the same, nothing has changed the file since its owner's last transaction, even if
    the owner was killed: the kernel keeps everything that a process has written. A
    power cut ends that, so a mark is valid until the machine restarts; and it needs no
    sync.

    LMDB changes the file while it commits, so the owner notes before each commit that
    it begins. A kill leaves that note. Until the head of the file is written last, LMDB
    writes only pages that are not in use, so such a file is sound, too, if it was
    written to at the time of the commit, and never since.
    """

    device: int
    inode: int
    size: int
    modified: int
    changed: int
    boot: str
    store: str
    """See :func:`name_of`."""
    transaction: int
    committing: int
    """Unix time in nanoseconds at which the next commit began; 0: it has not begun."""


class Marked(NamedTuple):
    """The data file compared with its mark."""

    trusted: bool
    """Whether it is unchanged, or has only changed at the time of a commit that was not
    finished."""
    transaction: int
    """The transaction in the mark; 0 if there is no mark, or the file was replaced: a
    copy numbers its transactions anew."""
    store: str = ""
    """The name of the store in the mark; empty if there is no mark."""


def name_of(header: dict[str, Any]) -> str:
    """Return a name that only the store with this record ``store`` has."""
    (value,) = meta_records({"store": header}).values()
    return checksum(META, b"store", value).hex()


def read_mark(path: Path) -> Marked:
    """Compare the data file with its mark."""
    found = (path / files.DATA).lstat()
    try:
        mark = CleanMark(**(files.read_json(path / files.MARK) or {}))
        same = (mark.device, mark.inode) == (found.st_dev, found.st_ino)
        now = _state_of(found, mark.store, mark.transaction, mark.committing)
        interrupted = (
            same
            and mark.boot == now.boot
            and mark.size <= now.size
            # A write changes both times. If they differ, a tool has set one of them.
            and mark.changed <= now.changed == now.modified
            and now.changed <= mark.committing + COMMIT_NANOSECONDS
        )
        transaction = int(mark.transaction) if same else 0
        return Marked(mark == now or interrupted, transaction, str(mark.store))
    except (ValueError, TypeError):  # there is none, or something else
        return Marked(trusted=False, transaction=0)


def _state_of(found: os.stat_result, store: str, *commits: int) -> CleanMark:
    times = found.st_mtime_ns, found.st_ctime_ns
    return CleanMark(
        found.st_dev, found.st_ino, found.st_size, *times, boot_id(), store, *commits
    )


class OpenData:
    """The data file of an open store; detects that the file was replaced or cut.

    The file is marked as sound after each transaction of its owner, unless another
    process has written to it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found = files.identify(path)
        self._file: Descriptor | None = None

    def begin_marking(self, header: dict[str, Any], transaction: int) -> None:
        """Mark the file of a store as sound, now and after each transaction."""
        self._store = name_of(header)
        with suppress(OSError):
            flags = os.O_RDWR | os.O_CREAT
            self._file = Descriptor(files.open_regular(self._path / files.MARK, flags))
            self._file.truncate(MARK_BYTES)
        self.mark(transaction)

    def expect_same(self) -> None:
        """Check before a transaction that the file is the same that was opened."""
        if self._stat().st_mtime_ns != self._found.st_mtime_ns:
            self.close()  # another process writes to it

    def begin_commit(self, transaction: int) -> None:
        """Note that the commit after this transaction begins now."""
        self.mark(transaction, time_ns())

    def written(self, transaction: int) -> None:
        """Check the file after a transaction of this process, and mark it as sound."""
        self._found = self._stat()
        self.mark(transaction)

    def mark(self, transaction: int, committing: int = 0) -> None:
        """Mark the file as sound, as it was found, if this store is the owner's."""
        if self._file is not None:
            mark = _state_of(self._found, self._store, transaction, committing)
            text = json.dumps(mark._asdict()).ljust(MARK_BYTES)
            with suppress(OSError):
                os.pwrite(self._file.fileno(), text.encode(), 0)

    def close(self) -> None:
        """Mark it no more."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _stat(self) -> os.stat_result:
        data, before = self._path / files.DATA, self._found
        with explained(f"cannot look at {data}", self._path), suppress(StoreError):
            found = files.identify(self._path)
            same = (found.st_dev, found.st_ino) == (before.st_dev, before.st_ino)
            if same and found.st_size >= before.st_size:
                return found
        raise StoreIOError(
            f"{data} was deleted, replaced or truncated while it was in use, so nothing"
            f" can be written to it any more; put it back, or {last_backup(self._path)}"
        )
