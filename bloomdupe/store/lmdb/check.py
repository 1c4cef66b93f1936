"""Check: whether a data file may be given to LMDB, and belongs to its store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.errors import StoreLockedError, StoreMismatchError
from bloomdupe.store import files
from bloomdupe.store.format import MAGIC, damaged, expect_format
from bloomdupe.store.lmdb import open_data
from bloomdupe.store.lmdb.checked_reading import examine

if TYPE_CHECKING:
    from pathlib import Path

    from bloomdupe.store.lmdb.checked_reading import CheckReport


def check_data(path: Path, *, owned: bool) -> None:
    """Check the data unless it is unchanged.

    If another process owns the store, that process has checked it. ``owned`` says that
    this process holds the owner's lock.
    """
    mark = open_data.read_mark(path)
    if mark.trusted or (not owned and files.owner_of(path)):
        return
    report = _judged(path, ", which was not closed well or has been changed")
    problems = report.problems
    if problems and (owned or not files.owner_of(path)):
        if header := report.records.get("store"):
            check_format(path, header)
        more = len(problems) - 1
        what = problems[0] + (f", and {more:,} more" if more else "")
        raise damaged(str(path / files.DATA), what)


def _judged(path: Path, why: str = "") -> CheckReport:
    """Check a data file, and whether its mark describes it."""
    report = examine(path / files.DATA, why)
    mark, header = open_data.read_mark(path), report.records.get("store")
    if report.transaction < mark.transaction:
        report.problems.append(
            f"it is of transaction {report.transaction:,}, but had"
            f" {mark.transaction:,} when it was closed"
        )
    if mark.store and header and mark.store != open_data.name_of(header):
        report.problems.append(
            f"it is not the data that {files.MARK} belongs to: it was replaced. If it"
            f" is the right one, delete {files.MARK}"
        )
    return report


def check_format(path: Path, header: dict[str, Any] | None) -> dict[str, Any]:
    """Return the header of the store, or refuse the store."""
    if header is None or header.get("magic") != MAGIC:
        raise StoreMismatchError(
            f"{path / files.DATA} has no bloomdupe header; name another place"
        )
    expect_format(path, header)
    return header


def verify(path: Path) -> CheckReport:
    """Read all of a store and change nothing; the store must not be in use."""
    files.identify(path)
    if files.owner_of(path):
        raise StoreLockedError(
            f"{path} is in use, so it changes: stop its owner, or verify a backup of it"
        )
    report = _judged(path)
    if header := report.records.get("store"):
        check_format(path, header)
    return report
