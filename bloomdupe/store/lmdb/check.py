"""Check: whether a data file may be handed to LMDB.

LMDB trusts its file: a damaged file gives wrong answers, or ends the process by a
signal that no ``except`` catches. So a file that may be damaged is read by a process of
its own first.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from bloomdupe.errors import (
    StoreDamagedError,
    StoreError,
    StoreLockedError,
    StoreMismatchError,
)
from bloomdupe.store import files
from bloomdupe.store.format import MAGIC, damaged, expect_format
from bloomdupe.store.lmdb import open_data
from bloomdupe.store.lmdb.checked_reading import CheckReport
from bloomdupe.store.progress import reported

_FATAL = {
    signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL,
}  # fmt: skip
"""The signals that end a process that trusts a damaged file."""

# With the same modules as this process, and never with those of the folder in which it
# happens to run.
_CHILD = (
    "import sys; data, *sys.path = sys.argv[1:];"
    " from bloomdupe.store.lmdb.checked_reading import main; main(data)"
)


def check(data: Path, why: str = "") -> CheckReport:
    """Read the whole file and check structure, sums and ledger.

    Raises :class:`OSError` if it cannot be read. The log says ``why``, after the name
    of the file. For the time it takes see tests/benchmarks/README.md.
    """
    task, size = f"Checking {data}{why}", _megabytes(data.stat().st_size)
    found: Any = 0
    path = filter(os.path.isabs, [*sys.path, str(Path(__file__).parents[3])])
    with subprocess.Popen(  # noqa: S603 - this interpreter
        [sys.executable, "-I", "-c", _CHILD, data, *path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # Ctrl-C is for the process that waits for it.
        start_new_session=True,
    ) as child:
        try:
            lines = map(json.loads, child.stdout or ())
            for found in reported(lines, task, size, "MB", _megabytes):  # noqa: B007
                pass
        except BaseException:
            child.kill()
            raise
    code = child.returncode
    if -code in _FATAL:
        name = signal.Signals(-code).name
        return CheckReport([f"reading it ended a process by {name}"])
    if isinstance(found, int):
        raise StoreError(
            f"cannot check {data}: the process that reads it ended with exit status"
            f" {code}; look at the limits on memory and on processes"
        )
    if "failure" in found:
        if found["errno"]:
            raise OSError(found["errno"], found["failure"])
        raise StoreError(found["failure"])
    return CheckReport(**found)


def _megabytes(size: object) -> float:
    """Return a number of bytes in megabytes; of anything else, nothing."""
    return size / 1e6 if isinstance(size, int) else 0.0


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
    """Check a data file, and whether it is older than the transaction of its mark."""
    report = check(path / files.DATA, why)
    closed = open_data.read_mark(path).transaction
    if report.transaction < closed:
        report.problems.append(
            f"it is of transaction {report.transaction:,}, but had {closed:,} when it"
            " was closed"
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


def check_marker(path: Path, header: dict[str, Any] | None) -> None:
    """Refuse data of another store, as far as ``header`` and marker are there."""
    marker = files.read_marker(path)
    if None not in (marker, header) and marker != header:
        raise StoreDamagedError(
            f"{path / files.DATA} is not the data that {path / files.MARKER} belongs"
            " to: it was replaced. Put the right one back; or, if this is the right"
            f" one, delete {files.MARKER}: it is written anew"
        )


def verify(path: Path) -> CheckReport:
    """Read all of a store and change nothing; the store must not be in use."""
    files.identify(path)
    if files.owner_of(path):
        raise StoreLockedError(
            f"{path} is in use, so it changes: stop its owner, or verify a backup of it"
        )
    report = _judged(path)
    try:
        check_marker(path, report.records.get("store"))
    except StoreDamagedError as error:
        report.problems.append(str(error))
    return report
