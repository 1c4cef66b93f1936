"""Environment: LMDB's, opened as a store needs it, and its transactions."""

from __future__ import annotations

import os
from collections import defaultdict
from struct import unpack
from typing import TYPE_CHECKING, Any, TypeVar

import lmdb

from bloomdupe.errors import StoreError
from bloomdupe.store import files
from bloomdupe.store.format import (
    CHECKSUM_BYTES,
    EXACT,
    LEDGER,
    META,
    MODULUS,
    TABLES,
    Ledger,
    Totals,
    checksum,
    damaged,
    meta_record,
)
from bloomdupe.store.snapshot import Snapshot
from bloomdupe.store.system_errors import ADDRESSES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from bloomdupe.store.participant import Change, Part

Value = TypeVar("Value", bytes, memoryview)

MAP_BYTES = 1 << 30
"""Address space at first; doubled whenever a batch does not fit."""


def open_environment(
    path: Path, *, readonly: bool = False, lock: bool = True
) -> lmdb.Environment:
    """Open the environment in the directory ``path``, or create one."""
    size = (path / files.DATA).stat().st_size if (path / files.DATA).exists() else 0
    size = max(MAP_BYTES, 2 * size)
    try:
        return lmdb.open(
            os.fsencode(path),
            map_size=size,
            readonly=readonly,
            lock=lock,
            # A crawl reads pages at random, and would fetch unused ones. A verb mostly
            # reads whole databases, ten times as fast if they are not in memory.
            readahead=readonly,
            max_dbs=len(TABLES),
            mode=0o600,
            lib_version=0,
        )
    except (lmdb.MemoryError, MemoryError) as error:
        raise unmappable(path, size) from error


def unmappable(path: Path, size: int) -> StoreError:
    """Return the error that says why so many bytes cannot be mapped."""
    return StoreError(
        f"cannot map {size:,} bytes of address space for {path / files.DATA}:"
        f" raise {ADDRESSES}"
    )


class LmdbSnapshot(Snapshot):
    """A read transaction; ``file`` names the data file in messages."""

    def __init__(
        self, txn: lmdb.Transaction, tables: dict[bytes, Any], file: str
    ) -> None:
        self.shown = file
        self._txn = txn
        self._tables = tables

    @property
    def transaction(self) -> int:
        """Number of the last committed transaction."""
        return int(self._txn.id())

    def damaged(self, what: str) -> StoreError:
        """Return the error that says what is damaged, and the remedy."""
        return damaged(self.shown, what)

    def _stored(self, table: bytes, key: bytes) -> bytes | memoryview | None:
        try:
            return self._txn.get(key, None, self._tables[table])
        except lmdb.Error as error:
            raise unreadable(self.shown, error) from error

    def _range(
        self,
        table: bytes,
        low: bytes = b"",
        high: bytes = b"",
        *,
        backwards: bool = False,
        first: int = 0,
    ) -> Iterator[tuple[bytes, bytes | memoryview]]:
        del first
        try:
            with self._txn.cursor(self._tables[table]) as cursor:
                if backwards:
                    there = cursor.prev() if cursor.set_range(high) else cursor.last()
                    records = cursor.iterprev() if there else ()
                else:
                    there = cursor.set_range(low) if low else cursor.first()
                    records = cursor.iternext() if there else ()
                for found, value in records:
                    key = bytes(found)
                    if key < low or (high and key >= high):
                        return
                    yield key, value
        except lmdb.Error as error:
            raise unreadable(self.shown, error) from error

    def entries(self, table: bytes) -> int:
        """Count the records of a table without reading them."""
        return int(self._txn.stat(self._tables[table])["entries"])

    def ledger(self) -> Ledger:
        """Return the ledger; every store has one."""
        record = self.record(LEDGER)
        if record is None:
            raise self.damaged("the ledger is missing")
        totals = {name.encode(): total for name, total in record["totals"].items()}
        return Ledger(record["transaction"], totals)

    def end(self) -> None:
        """End the transaction."""
        self._txn.abort()


def unreadable(file: str, error: lmdb.Error) -> StoreError:
    """Return our error for one of LMDB."""
    return StoreError(f"cannot read {file}: {error}")


class LmdbBatch:
    """A write transaction.

    ``totals`` are those of the last transaction, and are kept right. Call :meth:`seal`
    last.
    """

    def __init__(
        self,
        txn: lmdb.Transaction,
        tables: dict[bytes, Any],
        totals: Totals | None = None,
    ) -> None:
        self._txn = txn
        self._tables = tables
        self._totals: Totals = defaultdict(lambda: [0, 0])
        for name, (records, sums) in (totals or {}).items():
            self._totals[name] = [records, sums]

    def write(self, part: Part) -> None:
        """Write a part."""
        for table in part.cleared:
            self._txn.drop(self._tables[table], delete=False)
            self._totals[table] = [0, 0]
        for table, changes in part.changes.items():
            self._change(table, changes)
        for table, (gone, new) in part.requests.items():
            self._replace(table, gone, new)
        total = self._totals[EXACT]
        for identity in part.exact:
            if self._txn.put(identity, b"", overwrite=False, db=self._tables[EXACT]):
                total[0] += 1
                total[1] += sum(unpack("<QQ", identity))

    def _change(self, table: bytes, changes: list[Change]) -> None:
        txn, database = self._txn, self._tables[table]
        records, sums = self._totals[table]
        number_of = int.from_bytes
        for key, value in changes:  # a hot path: a crawl of many hosts has many slots
            if value is not None:
                head = checksum(table, key, value)
                before = txn.replace(key, head + value, db=database)
                sums += number_of(head, "little")
                records += before is None
            else:
                before = txn.pop(key, db=database)
                records -= before is not None
            if before is not None:
                sums -= number_of(before[:CHECKSUM_BYTES], "little")
        self._totals[table] = [records, sums]

    def _replace(
        self, table: bytes, gone: list[bytes], new: dict[bytes, bytes]
    ) -> None:
        pop, database, number_of = self._txn.pop, self._tables[table], int.from_bytes
        records, sums = self._totals[table]
        for key in gone:
            before = pop(key, db=database)
            if before is not None:
                records -= 1
                sums -= number_of(before[:CHECKSUM_BYTES], "little")
        with self._txn.cursor(database) as cursor:
            # One call in C for all of them. In the order of the keys: each page of the
            # tree is touched once.
            cursor.putmulti(sorted(new.items()))
        for value in new.values():
            sums += number_of(value[:CHECKSUM_BYTES], "little")
        self._totals[table] = [records + len(new), sums]

    def seal(self) -> Ledger:
        """Write the ledger: the number of records of each table, and their sums."""
        totals = {
            name: [records, sums % MODULUS]
            for name, (records, sums) in self._totals.items()
        }
        ledger = Ledger(self._txn.id(), totals)
        named = {name.decode(): total for name, total in totals.items()}
        record = {"transaction": ledger.transaction, "totals": named}
        key, value = meta_record(LEDGER, record)
        value = checksum(META, key, value) + value
        self._txn.put(key, value, db=self._tables[META])
        return ledger


def portions(
    records: Iterable[tuple[bytes, Value]], most: int
) -> Iterator[tuple[list[tuple[bytes, Value]], int]]:
    """Yield records in portions of about ``most`` bytes, each with its bytes."""
    portion: list[tuple[bytes, Value]] = []
    size = 0
    for key, value in records:
        portion.append((key, value))
        size += len(key) + len(value)
        if size > most:
            yield portion, size
            portion, size = [], 0
    if portion:
        yield portion, size
