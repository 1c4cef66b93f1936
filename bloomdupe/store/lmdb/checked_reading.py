"""Checked reading: a data file that may be damaged is read in a process of its own.

:mod:`bloomdupe.store.lmdb.check` starts it. Damage may end it by a signal.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any

import lmdb
import lmdb.verify

from bloomdupe.errors import StoreError
from bloomdupe.store.files import open_regular
from bloomdupe.store.format import (
    CHECKSUM_BYTES,
    LEDGER,
    META,
    MODULUS,
    TABLES,
    describe,
    sum_of,
    total_of,
)
from bloomdupe.store.lmdb.environment import open_environment, portions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bloomdupe.store.format import Totals

MAX_PROBLEMS = 100
PORTION_BYTES = 1 << 20
"""Bytes of records that are read at once."""

_head = Struct("<40x IH42x IH42x 16x")
"""Of a head of the file (``mdb.c`` of LMDB 0.9): size of a page, and flags of the tree
of free pages; a field that is 0, and flags of the tree of tables."""
_INTEGER_KEYS = 8
"""The only flag of the tree of free pages; the other one has none."""


def main(data: str) -> None:
    """Print numbers of bytes while they are read, then what was found, as JSON."""
    try:
        found = examine(Path(data), _report)
    except (StoreError, OSError) as error:
        found = {
            "failure": getattr(error, "strerror", None) or str(error),
            "errno": getattr(error, "errno", None),
        }
    _report(found)


def _report(found: object) -> None:
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


def examine(data: Path, progress: Callable[[int], None]) -> dict[str, Any]:
    """Follow every page with LMDB's own verifier; then read every record through LMDB.

    Returns the fields of a :class:`bloomdupe.store.lmdb.check.CheckReport`.
    """
    reading = _Reading(progress)
    try:
        # It reads the file as plain bytes.
        reading.problems += lmdb.verify.verify(str(data))  # type: ignore[no-untyped-call]
        if not reading.problems:
            with (
                open_environment(data.parent, readonly=True, lock=False) as env,
                env.begin() as txn,
            ):
                reading.read_heads(data)
                reading.read(env, txn)
    except (lmdb.verify.VerifyError, lmdb.Error) as error:
        reading.problem(f"LMDB cannot read it: {error}")
    return {
        "transaction": reading.transaction,
        "problems": reading.problems[:MAX_PROBLEMS],
        "counts": {
            name.decode(): total[0] for name, total in sorted(reading.totals.items())
        },
        "records": reading.records,
    }


class _Reading:
    """A pass over all records, and what it finds."""

    def __init__(self, progress: Callable[[int], None]) -> None:
        self._progress = progress
        self.transaction = 0
        self.problems: list[str] = []
        self.totals: Totals = {}
        self.records: dict[str, dict[str, Any]] = {}

    def problem(self, what: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(what)

    def read_heads(self, data: Path) -> None:
        """Check the flags in the heads of the file, which the verifier does not."""
        page_size = 0
        with open(open_regular(data), "rb") as file:
            for number in range(2):
                file.seek(number * page_size)
                page_size, *flags = _head.unpack(file.read(_head.size))
                if flags != [_INTEGER_KEYS, 0, 0]:
                    self.problem(f"head {number} of the file is damaged")

    def read(self, env: lmdb.Environment, txn: lmdb.Transaction) -> None:
        """Read all tables and compare them with the ledger."""
        self.transaction = txn.id()
        with txn.cursor() as cursor:
            names = {bytes(name) for name in cursor.iternext(values=False)}
        for name in names.symmetric_difference(TABLES):
            words = "is missing" if name in TABLES else "is not of bloomdupe"
            self.problem(f"the table {name.decode(errors='replace')} {words}")
        if META not in names:
            return
        self._read_table(env, txn, META, None)
        ledger = self.records.get(LEDGER)
        if ledger is None:
            self.problem("the ledger is missing")
            return
        for name in TABLES:
            records, sums = ledger["totals"].get(name.decode(), [0, 0])
            if name != META and name in names:
                self._read_table(env, txn, name, records)
            found, found_sums = self.totals.get(name, [0, 0])
            if found != records:
                self.problem(
                    f"{found:,} {name.decode()} records stand where {records:,} were"
                    " written"
                )
            elif (found_sums - sums) % MODULUS:
                self.problem(
                    f"some of the {name.decode()} records are outdated or wrong"
                )
        if ledger["transaction"] != txn.id():
            self.problem(
                f"the ledger is of transaction {ledger['transaction']:,}, the last one"
                f" was {txn.id():,}"
            )

    def _read_table(
        self,
        env: lmdb.Environment,
        txn: lmdb.Transaction,
        table: bytes,
        expected: int | None,
    ) -> None:
        """Read a table; no more than one record above what was ``expected``.

        Each record must also be found under its key, because a crawl looks for it so.
        """
        total = self.totals[table] = [0, 0]
        database = env.open_db(table, txn, create=False)
        if any(database.flags().values()):
            self.problem(f"{table.decode()}: its root is damaged")
            return
        with txn.cursor(database) as cursor, txn.cursor(database) as finder:
            # They are bytes, because the transaction has no buffers.
            records: Iterator[tuple[bytes, bytes]] = cursor.iternext()  # type: ignore[assignment]
            for some, size in portions(records, PORTION_BYTES):
                keys, values = [key for key, _ in some], [value for _, value in some]
                sums, damaged = total_of(table, keys, values)
                total[0] += len(keys)
                total[1] += sums
                for number in damaged:
                    self.problem(f"{describe(table, keys[number])} is damaged")
                if len(finder.getmulti(keys)) != len(keys):
                    self.problem(f"{table.decode()}: keys lead to other records")
                if table == META and not damaged:
                    self._note(keys, values)
                if expected is not None and total[0] > expected:
                    break
                self._progress(size)

    def _note(self, names: list[bytes], values: list[bytes]) -> None:
        """Note the records of ``meta``; the ledger does not count itself."""
        for name, value in zip(names, values, strict=True):
            self.records[name.decode()] = json.loads(value[CHECKSUM_BYTES:])
            if name == LEDGER.encode():
                self.totals[META][0] -= 1
                self.totals[META][1] -= sum_of(value)
