"""Environment: LMDB's, opened as a store needs it, and its transactions."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypeVar

import lmdb

from bloomdupe.errors import StoreError
from bloomdupe.store import files
from bloomdupe.store.format import (
    CHECKSUM_BYTES,
    LEDGER,
    META,
    MODULUS,
    QUEUE,
    TABLES,
    checksum,
    damaged,
    meta_records,
)
from bloomdupe.store.snapshot import Snapshot
from bloomdupe.store.system_errors import ADDRESSES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from bloomdupe.store.format import Sums
    from bloomdupe.store.store import Changes, Part

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

    def stored(self, table: bytes, key: bytes) -> bytes | memoryview | None:
        """Return the value under a key as it is stored."""
        try:
            return self._txn.get(key, None, self._tables[table])
        except lmdb.Error as error:
            raise unreadable(self.shown, error) from error

    def _all(self, table: bytes) -> Iterator[tuple[bytes, bytes | memoryview]]:
        try:
            with self._txn.cursor(self._tables[table]) as cursor:
                for key, value in cursor:
                    yield bytes(key), value
        except lmdb.Error as error:
            raise unreadable(self.shown, error) from error

    def _requests(
        self, low: bytes, high: bytes, first: int
    ) -> Iterator[tuple[bytes, bytes | memoryview]]:
        del first
        try:
            with self._txn.cursor(self._tables[QUEUE]) as cursor:
                there = cursor.prev() if cursor.set_range(high) else cursor.last()
                for found, value in cursor.iterprev() if there else ():
                    key = bytes(found)
                    if key < low:
                        return
                    yield key, value
        except lmdb.Error as error:
            raise unreadable(self.shown, error) from error

    def entries(self, table: bytes) -> int:
        """Count the records of a table without reading them."""
        return int(self._txn.stat(self._tables[table])["entries"])

    def ledger(self) -> dict[str, Any]:
        """Return the ledger; every store has one."""
        record = self.record(LEDGER)
        if record is None:
            raise self.damaged("the ledger is missing")
        return record

    def close(self) -> None:
        """End the transaction."""
        self._txn.abort()


def unreadable(file: str, error: lmdb.Error) -> StoreError:
    """Return our error for one of LMDB."""
    return StoreError(f"cannot read {file}: {error}")


def write_parts(
    txn: lmdb.Transaction,
    tables: dict[bytes, Any],
    parts: Iterable[Part],
    before: Sums,
) -> dict[str, Any]:
    """Write parts, and the ledger of the transaction; return that.

    ``before`` are the sums in the last ledger; they are not changed.
    """
    sums: Sums = defaultdict(int, before)
    for part in parts:
        for table in part.cleared:
            txn.drop(tables[table], delete=False)
            sums[table.decode()] = 0
        for table, changes in part.changes.items():
            sums[table.decode()] += _change(txn, tables[table], table, changes)
    sums = {name: one % MODULUS for name, one in sums.items()}
    ledger = {"transaction": txn.id(), "sums": sums}
    for key, value in meta_records({LEDGER: ledger}).items():
        txn.put(key, checksum(META, key, value) + value, db=tables[META])
    return ledger


def _change(
    txn: lmdb.Transaction, database: Any, table: bytes, changes: Changes
) -> int:
    """Change records of a table; return by how much its sum grows."""
    number_of = int.from_bytes
    sums = 0
    # A hot path. In the order of the keys: each page of the tree is touched once.
    for key in sorted(changes):
        value = changes[key]
        if value is None:
            before = txn.pop(key, db=database)
        else:
            head = checksum(table, key, value)
            sums += number_of(head, "little")
            before = txn.replace(key, head + value, db=database)
        if before is not None:
            sums -= number_of(before[:CHECKSUM_BYTES], "little")
    return sums


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
