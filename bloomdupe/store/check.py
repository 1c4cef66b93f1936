"""Check: verifies the contents of a data file without LMDB's help."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import lmdb.verify

from bloomdupe.errors import StoreDamagedError, StoreLockedError
from bloomdupe.store import files
from bloomdupe.store.datafile import DataFile, NotLmdbError
from bloomdupe.store.format import (
    DATABASES,
    LEDGER,
    Totals,
    describe,
    read_record,
    total_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["CheckReport", "check", "verify"]

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

    @property
    def is_ours(self) -> bool:
        """Whether the file has any database of a store."""
        return not self.totals.keys().isdisjoint(DATABASES)


def check(data: Path, progress: Callable[[int], None] | None = None) -> CheckReport:
    """Read the whole file and check structure, sums and ledger.

    Raises :class:`~bloomdupe.store.datafile.NotLmdbError`, and :class:`OSError` if it
    cannot be read. ``progress`` is called with numbers of bytes. For the time it takes
    see tests/benchmarks/README.md.
    """
    with DataFile(data, progress=progress) as file:
        wrong: list[str] = []
        report = CheckReport(file.transaction, wrong)
        sealed: dict[str, Any] | None = None
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
                if database == b"meta":
                    sound = set(range(len(leaf.keys))) - set(damaged)
                    for number in sound:
                        name = leaf.keys[number].decode(errors="replace")
                        record = read_record(leaf.values[number])
                        if record is None:
                            wrong.append(f"record {name!r} is not one")
                            continue
                        report.records[name] = record
                        if name == LEDGER:
                            sealed = record
                            total[0] -= 1
                            total[1] -= int.from_bytes(
                                leaf.values[number][:8], "little"
                            )
            total[1] %= 1 << 64
        file.finish()
        wrong[:0] = file.problems
    wrong += [
        f"the database {name.decode()} is missing"
        for name in DATABASES
        if name not in report.totals
    ]
    if sealed is not None:
        _compare(report, sealed)
    elif report.records.get("store", {}).get("ledger"):
        wrong.append("the ledger is missing")
    return report


def verify(
    path: Path, progress: Callable[[int], None] | None = None
) -> tuple[dict[str, int], list[str]]:
    """Read all of a store and change nothing; the store must not be in use.

    Returns the number of records of each database, and a list of problems. It also runs
    py-lmdb's own verifier, which knows LMDB better and takes longer.
    """
    data = path / files.DATA
    files.identify(path)
    if files.in_use(path):
        raise StoreLockedError(
            f"{path} is in use, so it changes: stop its owner, or verify a backup of it"
        )
    try:
        report = check(data, progress)
    except NotLmdbError as error:
        return {}, [f"{data} is not an LMDB file of version 0.9: {error}"]
    problems = report.problems
    try:
        problems += [f"LMDB's verifier: {line}" for line in _by_lmdb(data)]
    except (lmdb.verify.VerifyError, struct.error, RecursionError) as error:
        problems.append(f"LMDB's verifier: {error}")
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
    totals = {
        name.decode(errors="replace"): n for name, (n, _) in report.totals.items()
    }
    return totals, problems


def _by_lmdb(data: Path) -> list[str]:
    problems: list[str] = lmdb.verify.verify(data)  # type: ignore[no-untyped-call]
    return problems


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
