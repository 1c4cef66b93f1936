"""Check: verifies the contents of a data file without LMDB's help."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bloomdupe.errors import StoreDamagedError, StoreLockedError
from bloomdupe.store import files
from bloomdupe.store.format import (
    APART,
    CHECKSUM_BYTES,
    LEDGER,
    META,
    QUEUE,
    SLOT_KEY,
    SLOTS,
    TABLES,
    StoredSlot,
    Totals,
    describe,
    read_record,
    slot_of,
    sum_of,
    total_of,
)
from bloomdupe.store.lmdb.datafile import DataFile, Leaf, NotLmdbError
from bloomdupe.store.progress import Progress

if TYPE_CHECKING:
    from pathlib import Path

MAX_PROBLEMS = 100


@dataclass
class CheckReport:
    """The result of :func:`check`."""

    transaction: int
    """Number of the last transaction."""
    problems: list[str]
    """At most a few hundred lines; empty if the file is sound."""
    totals: Totals = field(default_factory=dict)
    """Of each database: number of records, and their sums added up."""
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The named records of ``meta``."""
    slots: Counter[int] = field(default_factory=Counter)
    """Requests that were found in ``queue``, by the number of their slot."""
    counted: dict[int, int] = field(default_factory=dict)
    """The same, as they are counted in ``slots``."""

    @property
    def counts(self) -> dict[str, int]:
        """Number of records of each database."""
        return {
            name.decode(errors="replace"): count
            for name, (count, _) in self.totals.items()
        }

    @property
    def is_ours(self) -> bool:
        """Whether the file has any table of a store."""
        return not self.totals.keys().isdisjoint(TABLES)


def check(data: Path, why: str = "") -> CheckReport:
    """Read the whole file and check structure, sums and ledger.

    Raises :class:`~bloomdupe.store.lmdb.datafile.NotLmdbError`, and :class:`OSError` if
    it cannot be read. The log says ``why``, after the name of the file. For the time it
    takes see tests/benchmarks/README.md.
    """
    task, size = f"Checking {data}{why}", data.stat().st_size
    progress = Progress(task, size, "MB", scale=10**6)
    with DataFile(data, progress=progress.passed) as file:
        wrong: list[str] = []
        report = CheckReport(file.transaction, wrong)
        for database, root in file.databases().items():
            total = report.totals[database] = [0, 0]
            for leaf in file.records(database, root):
                sums, damaged = total_of(database, leaf.keys, leaf.values)
                total[0] += len(leaf.keys)
                total[1] += sums
                wrong += [
                    f"{describe(database, leaf.keys[number])} is damaged"
                    for number in damaged[: MAX_PROBLEMS - len(wrong)]
                ]
                if database == META:
                    _read_meta(report, leaf, damaged)
                elif not damaged:
                    _count_requests(report, database, leaf)
            total[1] %= 1 << 64
        file.finish()
        wrong[:0] = file.problems
    wrong += [
        f"the table {name.decode()} is missing"
        for name in TABLES
        if name not in report.totals
    ]
    if LEDGER in report.records:
        _compare(report, report.records[LEDGER])
    elif report.is_ours:
        wrong.append("the ledger is missing")
    return report


def _read_meta(report: CheckReport, leaf: Leaf, damaged: list[int]) -> None:
    """Read the named records that are sound; the ledger does not count itself."""
    total = report.totals[META]
    for number in set(range(len(leaf.keys))) - set(damaged):
        name = leaf.keys[number].decode(errors="replace")
        record = read_record(leaf.values[number])
        if record is None:
            report.problems.append(f"record {name!r} is no JSON object")
            continue
        report.records[name] = record
        if name == LEDGER:
            total[0] -= 1
            total[1] -= sum_of(leaf.values[number])


def _count_requests(report: CheckReport, table: bytes, leaf: Leaf) -> None:
    """Count the requests of each slot, as they are, and as they were counted."""
    keys = leaf.keys
    if table == SLOTS:
        for key, value in zip(keys, leaf.values, strict=True):
            if not key.startswith(APART):
                (number,) = SLOT_KEY.unpack(key)
                slot = StoredSlot.read(number, memoryview(value)[CHECKSUM_BYTES:])
                report.counted[slot.number] = slot.requests
    elif table == QUEUE and keys:
        first, last = slot_of(keys[0])[0], slot_of(keys[-1])[0]
        if first == last:
            report.slots[first] += len(keys)
        else:
            report.slots.update(slot_of(key)[0] for key in keys)


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
    closed = files.read_mark(path).transaction
    if report.transaction < closed:
        problems.append(
            f"{files.DATA} is of transaction {report.transaction:,}, but had"
            f" {closed:,} when it was closed"
        )
    return report


def _compare(report: CheckReport, sealed: dict[str, Any]) -> None:
    """Compare the counts and sums of the file with the ledger."""
    expected = {name.encode(): total for name, total in sealed["totals"].items()}
    for name in {**expected, **report.totals}:
        records, sums = expected.get(name, [0, 0])
        found, found_sums = report.totals.get(name, [0, 0])
        words = name.decode(errors="replace")
        if found != records:
            report.problems.append(
                f"{found:,} {words} records stand where {records:,} were written"
            )
        elif found_sums != sums:
            report.problems.append(f"some of the {words} records are outdated or wrong")
    if sealed["transaction"] != report.transaction:
        report.problems.append(
            f"the ledger is of transaction {sealed['transaction']:,}, the last one was"
            f" {report.transaction:,}"
        )
