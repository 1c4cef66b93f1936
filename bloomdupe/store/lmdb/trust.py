"""Trust: the checks that a store must pass before and while it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.errors import (
    StoreDamagedError,
    StoreMismatchError,
)
from bloomdupe.store import files
from bloomdupe.store.format import (
    FORMAT,
    MAGIC,
    META,
    Ledger,
    damaged,
)
from bloomdupe.store.lmdb import open_data
from bloomdupe.store.lmdb.check import check, older_than
from bloomdupe.store.lmdb.heads import NotLmdbError, read_head

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bloomdupe.store.lmdb.lmdb_snapshot import LmdbSnapshot


def check_data(path: Path, *, owned: bool) -> None:
    """Check the data unless it is unchanged.

    If another process owns the store, that process has checked it. ``owned`` says that
    this process holds the owner's lock. A file that is shorter than its head says is
    always checked.
    """
    mark = open_data.read_mark(path)
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
