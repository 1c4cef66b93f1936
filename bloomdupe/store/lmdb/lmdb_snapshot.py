"""LmdbSnapshot: a read transaction of LMDB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lmdb

from bloomdupe.errors import StoreError
from bloomdupe.store.format import LEDGER, Ledger, damaged
from bloomdupe.store.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator


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

    # Any table

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
