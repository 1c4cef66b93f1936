"""Trust: the checks that a store must pass before and while it is used."""

from __future__ import annotations

from contextlib import suppress
from time import time_ns
from typing import TYPE_CHECKING, Any

from bloomdupe.errors import (
    StoreDamagedError,
    StoreError,
    StoreIOError,
    StoreMismatchError,
)
from bloomdupe.store import files
from bloomdupe.store.format import (
    FORMAT,
    MAGIC,
    META,
    Ledger,
    damaged,
    last_backup,
)
from bloomdupe.store.lmdb.check import check, older_than
from bloomdupe.store.lmdb.heads import NotLmdbError, read_head
from bloomdupe.store.system_errors import explained

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from pathlib import Path

    from bloomdupe.store.lmdb.lmdb_snapshot import LmdbSnapshot


def check_data(path: Path, *, owned: bool) -> None:
    """Check the data unless it is unchanged.

    If another process owns the store, that process has checked it. ``owned`` says that
    this process holds the owner's lock. A file that is shorter than its head says is
    always checked.
    """
    mark = files.read_mark(path)
    data = path / files.DATA
    try:
        head = read_head(data)
        if not head.is_short and (
            mark.clean
            or (not owned and files.in_use(path))
            or (
                mark.interrupted
                and not head.problems
                and 0 <= head.transaction - mark.transaction <= 1
            )
        ):
            return
        report = check(data, ", which was not closed well or has been changed")
    except NotLmdbError as error:
        raise damaged(
            str(data), f"it is not an LMDB file of version 0.9: {error}"
        ) from error
    problems = report.problems
    if not (report.is_ours or files.read_marker(path)):
        raise StoreMismatchError(
            f"{data} is an LMDB file, but not of bloomdupe; name another place"
        )
    if "store" in report.records or not problems:
        _check_format(path, report.records.get)
    problems += older_than(report, mark.transaction)
    # Unless another process has committed during the check.
    if problems and (
        owned
        or not files.in_use(path)
        or read_head(data).transaction == report.transaction
    ):
        more = len(problems) - 1
        raise damaged(str(data), problems[0] + (f", and {more:,} more" if more else ""))


def trusted_header(
    path: Path, snapshot: LmdbSnapshot, *, readonly: bool
) -> dict[str, Any]:
    """Return the header of the store, if the data belongs to it."""
    header = _check_format(path, snapshot.record)
    marker = files.read_marker(path)
    if marker is None and not readonly:
        files.write_marker(path, header)
    elif marker is not None and marker != header:
        raise StoreDamagedError(
            f"{path / files.DATA} is not the data that {path / files.MARKER} belongs"
            " to: it was replaced. Put the right one back; or, if this is the right"
            f" one, delete {files.MARKER}: it is written anew"
        )
    return header


def _check_format(
    path: Path, record: Callable[[str], dict[str, Any] | None]
) -> dict[str, Any]:
    """Return the header of the store, or refuse the store."""
    header = record("store")
    if header is None or header.get("magic") != MAGIC:
        raise StoreMismatchError(
            f"{path / files.DATA} has no bloomdupe header; name another place"
        )
    if header["format"] != FORMAT:
        raise StoreMismatchError(
            f"{path} has format {header['format']}, this version of"
            f" bloomdupe reads format {FORMAT}; use the version that wrote it"
            f" ({header.get('written_by', 'unknown')})"
        )
    return header


def trusted_ledger(path: Path, snapshot: LmdbSnapshot) -> Ledger:
    """Return the ledger, if it matches the last transaction and the record counts."""
    transaction = snapshot.transaction
    ledger = snapshot.ledger()
    data = path / files.DATA
    if ledger.transaction != transaction:
        raise damaged(
            str(data),
            f"the ledger is of transaction {ledger.transaction:,}, the last one"
            f" was {transaction:,}",
        )
    for name, (records, _) in ledger.totals.items():
        if name != META:
            snapshot.expect_entries(name, records)
    return ledger


class OpenData:
    """The data file of an open store; detects that the file was replaced or cut.

    The file is marked as sound after each transaction of its owner, unless another
    process has written to it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found = files.identify(path)
        self._mark: files.MarkFile | None = None
        self._touched = False

    def begin_marking(self, transaction: int) -> None:
        """Mark the file as sound, now and after each transaction."""
        self._mark = files.MarkFile(self._path)
        self.mark(transaction)

    def expect_same(self) -> None:
        """Check before a transaction that the file is the same that was opened."""
        modified = self._found.st_mtime_ns
        if self._look().st_mtime_ns != modified:
            self._touched = True  # another process writes to it

    def begin_commit(self, transaction: int) -> None:
        """Note that the commit after this transaction begins now."""
        self.mark(transaction, time_ns())

    def written(self, transaction: int) -> None:
        """Check the file after a transaction of this process, and mark it as sound."""
        self._found = self._look()
        self.mark(transaction)

    def mark(self, transaction: int, committing: int = 0) -> None:
        """Mark the file as sound, as it was found, if this store is the owner's.

        For ``committing`` see :class:`~bloomdupe.store.files.CleanMark`.
        """
        if self._mark is not None and not self._touched:
            self._mark.write(self._found, transaction, committing)

    def close(self) -> None:
        """Close the file that holds the mark."""
        if self._mark is not None:
            self._mark.close()

    def _look(self) -> os.stat_result:
        data = self._path / files.DATA
        found: os.stat_result | None = None
        with explained(f"cannot look at {data}", self._path), suppress(StoreError):
            found = files.identify(self._path)
        before = self._found
        if (
            found is None
            or (found.st_dev, found.st_ino) != (before.st_dev, before.st_ino)
            or found.st_size < before.st_size
        ):
            raise StoreIOError(
                f"{data} was deleted, replaced or cut short while it was in use,"
                " so nothing can be written to it any more; put it back, or"
                f" {last_backup(self._path)}"
            )
        return found
