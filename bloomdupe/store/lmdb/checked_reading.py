"""Checked reading: how a data file that may be damaged is read.

LMDB trusts its file: a damaged file gives wrong answers, or ends the process by a
signal that no ``except`` catches. So LMDB's own verifier follows every page first, as
plain bytes.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING, Any

import lmdb
import lmdb.verify

from bloomdupe.store.files import open_regular
from bloomdupe.store.format import (
    CHECKSUM_BYTES,
    LEDGER,
    META,
    MODULUS,
    TABLES,
    describe,
    sum_in,
)
from bloomdupe.store.lmdb.environment import open_environment, portions
from bloomdupe.store.progress import reported
from bloomdupe.store.system_errors import explained

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

MAX_PROBLEMS = 100
PORTION_BYTES = 1 << 20
"""Bytes of records that are read at once."""

_head = Struct("<40x IH42x IH42x 16x")
"""Of a head of the file (``mdb.c`` of LMDB 0.9): size of a page, and flags of the tree
of free pages; a field that is 0, and flags of the tree of tables."""
_INTEGER_KEYS = 8
"""The only flag of the tree of free pages; the other one has none."""


@dataclass
class CheckReport:
    """What was found in a data file."""

    problems: list[str] = field(default_factory=list)
    """At most ``MAX_PROBLEMS`` lines; empty if the file is sound."""
    transaction: int = 0
    """Number of the last transaction."""
    counts: Counter[str] = field(default_factory=Counter)
    """Number of records of each table."""
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The named records of ``meta``."""

    def problem(self, *what: str) -> None:
        """Note problems."""
        self.problems = [*self.problems, *what][:MAX_PROBLEMS]


def examine(data: Path, why: str = "") -> CheckReport:
    """Read a data file, and check structure, sums and ledger.

    Raises :class:`~bloomdupe.errors.StoreError` if it cannot be read. The log says
    ``why``, after the name of the file. For the time it takes see
    tests/benchmarks/README.md.
    """
    report = CheckReport()
    with explained(f"cannot check {data}", data.parent):
        task, size = f"Checking {data}{why}", data.stat().st_size
        try:
            report.problem(*lmdb.verify.verify(str(data)))  # type: ignore[no-untyped-call]
            if not report.problems:
                _read(data, report, task, size / 1e6)
        except (lmdb.verify.VerifyError, lmdb.Error) as error:
            if getattr(error, "code", -1) >= 0:
                raise  # of the system; or it is open in this process already
            report.problem(f"LMDB cannot read it: {error}")
    return report


def _read(data: Path, report: CheckReport, task: str, megabytes: float) -> None:
    """Read every record through LMDB."""
    with (
        open_environment(data.parent, readonly=True, lock=False) as env,
        env.begin() as txn,
    ):
        report.problem(*_damaged_heads(data))
        sizes = _Reading(env, txn, report).read()
        for _ in reported(sizes, task, megabytes, "MB", lambda size: size / 1e6):
            pass


def _damaged_heads(data: Path) -> Iterator[str]:
    """Check the flags in the heads of the file, which the verifier does not."""
    page_size = 0
    with open(open_regular(data), "rb") as file:
        for number in range(2):
            file.seek(number * page_size)
            page_size, *flags = _head.unpack(file.read(_head.size))
            if flags != [_INTEGER_KEYS, 0, 0]:
                yield f"head {number} of the file is damaged"


@dataclass
class _Reading:
    """A pass over all records; its methods yield bytes when they are read."""

    env: lmdb.Environment
    txn: lmdb.Transaction
    report: CheckReport

    def read(self) -> Iterator[int]:
        """Read all tables and compare them with the ledger."""
        txn, report = self.txn, self.report
        report.transaction = txn.id()
        with txn.cursor() as cursor:
            names = {bytes(name) for name in cursor.iternext(values=False)}
        for table in set(TABLES) - names:
            report.problem(f"the table {table.decode()} is missing")
        report.counts = Counter(dict.fromkeys(map(bytes.decode, TABLES), 0))
        found = {}
        for table in (one for one in TABLES if one in names):
            found[table] = yield from self._read_table(table)
        ledger = report.records.get(LEDGER)
        if ledger is None:
            report.problem("the ledger is missing")
            return
        for table in found:
            name = table.decode()
            if (found[table] - ledger.get("sums", {}).get(name, 0)) % MODULUS:
                report.problem(f"some {name} records are missing, outdated or wrong")
        if ledger["transaction"] != txn.id():
            report.problem(
                f"the ledger is of transaction {ledger['transaction']:,}, the last one"
                f" was {txn.id():,}"
            )

    def _read_table(self, table: bytes) -> Generator[int, None, int]:
        """Read a table; return the sums of its records, the ledger left out.

        Each record must also be found under its key, because a crawl looks for it so.
        """
        sums = 0
        report, txn = self.report, self.txn
        database = self.env.open_db(table, txn, create=False)
        if any(database.flags().values()):
            report.problem(f"{table.decode()}: its root is damaged")
            return sums
        with txn.cursor(database) as cursor, txn.cursor(database) as finder:
            # They are bytes, because the transaction has no buffers.
            records: Iterator[tuple[bytes, bytes]] = cursor.iternext()  # type: ignore[assignment]
            for some, size in portions(records, PORTION_BYTES):
                for key, value in some:
                    one = sum_in(table, key, value)
                    if one is None:
                        report.problem(f"{describe(table, key)} is damaged")
                        continue
                    if table == META:
                        record = json.loads(value[CHECKSUM_BYTES:])
                        report.records[key.decode()] = record
                        if key == LEDGER.encode():
                            continue
                    sums += one
                report.counts[table.decode()] += len(some)
                keys = [key for key, _ in some]
                if len(finder.getmulti(keys)) != len(keys):
                    report.problem(f"{table.decode()}: keys lead to other records")
                yield size
        return sums
