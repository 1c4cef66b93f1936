"""Check: whether a data file may be handed to LMDB.

LMDB trusts its file: a damaged file gives wrong answers, or ends the process by a
signal that no ``except`` catches. So a file that may be damaged is read by two
processes of its own at the same time. In one of them LMDB's own verifier follows the
pages, free ones included; in the other every record is read through LMDB.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bloomdupe.errors import StoreDamagedError, StoreError, StoreLockedError
from bloomdupe.store import files
from bloomdupe.store.lmdb import open_data
from bloomdupe.store.lmdb.heads import NotLmdbError, read_head
from bloomdupe.store.progress import Progress

if TYPE_CHECKING:
    from typing_extensions import Self

_FATAL = {
    -signum: signum.name
    for signum in (
        signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL,
    )
}  # fmt: skip
"""By exit code, the signals that end a process that trusts a damaged file."""

# With the same modules as this process, and never with those of the folder in which it
# happens to run.
_CHILD = (
    "import sys; what, data, *sys.path = sys.argv[1:];"
    " from bloomdupe.store.lmdb.checked_reading import main; main(what, data)"
)


@dataclass
class CheckReport:
    """The result of :func:`check`."""

    transaction: int
    """Number of the last transaction."""
    problems: list[str]
    """At most a few hundred lines; empty if the file is sound."""
    is_ours: bool = True
    """Whether the file has any table of a store."""
    counts: dict[str, int] = field(default_factory=dict)
    """Number of records of each table."""
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The named records of ``meta``."""
    misfits: list[str] = field(default_factory=list)
    """Slots that have other requests than were counted."""


def check(data: Path, why: str = "") -> CheckReport:
    """Read the whole file and check structure, sums and ledger.

    Raises :class:`~bloomdupe.store.lmdb.heads.NotLmdbError`, and :class:`OSError` if
    it cannot be read. The log says ``why``, after the name of the file. For the time it
    takes see tests/benchmarks/README.md.
    """
    head = read_head(data)
    task, size = f"Checking {data}{why}", data.stat().st_size
    progress = Progress(task, size, "MB", scale=10**6)
    with _Reader("structure", data) as structure, _Reader("records", data) as records:
        found = records.answer(progress)
        damage = structure.answer()["problems"]
    report = CheckReport(head.transaction, **found)
    report.problems[:0] = head.problems + damage
    return report


class _Reader:
    """A process that runs :mod:`bloomdupe.store.lmdb.checked_reading`."""

    def __init__(self, what: str, data: Path) -> None:
        self._data = data
        # Not the modules of the folder, which may hold anything: "" in the path.
        path = filter(None, [*sys.path, str(Path(__file__).parents[3])])
        # In a session of its own: Ctrl-C is for the process that waits for it.
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter
            [sys.executable, "-I", "-c", _CHILD, what, data, *path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def answer(self, progress: Progress | None = None) -> dict[str, Any]:
        """Wait for what was found; a signal that damage causes is a problem, too."""
        found: dict[str, Any] | int = 0
        for line in self._process.stdout or ():
            found = json.loads(line)
            if isinstance(found, int) and progress is not None:
                progress.passed(found)
        code = self._process.wait()
        if code in _FATAL:
            return {"problems": [f"reading it ended a process by {_FATAL[code]}"]}
        if code or isinstance(found, int):
            raise StoreError(
                f"cannot check {self._data}: the process that reads it ended with exit"
                f" status {code}; look at the limits on memory and on processes"
            )
        if "failure" in found:
            if found["errno"]:
                raise OSError(found["errno"], found["failure"])
            raise StoreError(found["failure"])
        return found


def verify(path: Path) -> CheckReport:
    """Read all of a store and change nothing; the store must not be in use."""
    data = path / files.DATA
    files.identify(path)
    if files.in_use(path):
        raise StoreLockedError(
            f"{path} is in use, so it changes: stop its owner, or verify a backup of it"
        )
    try:
        report = check(data)
    except NotLmdbError as error:
        return CheckReport(0, [f"{data} is not an LMDB file of version 0.9: {error}"])
    problems = report.problems
    header = report.records.get("store")
    try:
        marker = files.read_marker(path)
    except StoreDamagedError as error:
        marker = None
        problems.append(str(error))
    if marker is not None and header is not None and marker != header:
        problems.append(f"{files.MARKER} belongs to another {files.DATA}")
    problems += older_than(report, open_data.read_mark(path).transaction)
    return report


def older_than(report: CheckReport, closed: int) -> list[str]:
    """Say that a data file is older than the transaction of its mark."""
    if report.transaction >= closed:
        return []
    return [
        f"it is of transaction {report.transaction:,}, but had {closed:,} when it was"
        " closed"
    ]
