"""LmdbBatch: a write transaction of LMDB."""

from __future__ import annotations

from collections import defaultdict
from struct import unpack
from typing import TYPE_CHECKING, Any

from bloomdupe.store.batch import Batch
from bloomdupe.store.format import (
    CHECKSUM_BYTES,
    EXACT,
    LEDGER,
    META,
    MODULUS,
    Ledger,
    Totals,
    checksum,
    json_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    import lmdb

    from bloomdupe.store.batch import Change

LMDB_PAGE_BYTES = 4096


class LmdbBatch(Batch):
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

    def change(self, table: bytes, changes: Iterable[Change]) -> None:
        """Store values, each after its sum, and remove records, if they are there."""
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

    def add_exact(self, identities: Iterable[bytes]) -> None:
        """Store exact identities of keys."""
        total = self._totals[EXACT]
        for identity in identities:
            if self._txn.put(identity, b"", overwrite=False, db=self._tables[EXACT]):
                total[0] += 1
                total[1] += sum(unpack("<QQ", identity))

    def clear(self, *tables: bytes) -> None:
        """Remove all records of these tables."""
        for table in tables:
            self._txn.drop(self._tables[table], delete=False)
            self._totals[table] = [0, 0]

    def replace(
        self,
        table: bytes,
        gone: list[bytes],
        new: dict[bytes, bytes],
        many: Iterable[list[tuple[bytes, bytes]]] = (),
    ) -> None:
        """Remove and store records of ``queue`` or ``later``.

        LMDB fills its pages only where records are appended at their ends; a page in
        which more records follow splits into halves, over and over. So if a slot gets
        many records, a page of the records that follow them is taken out and put back
        at the end.
        """
        pop, database, number_of = self._txn.pop, self._tables[table], int.from_bytes
        records, sums = self._totals[table]
        for key in gone:
            before = pop(key, db=database)
            if before is not None:
                records -= 1
                sums -= number_of(before[:CHECKSUM_BYTES], "little")
        with self._txn.cursor(database) as cursor:
            for some in many:
                lifted = _lift(cursor, some)
                cursor.putmulti(some)
                cursor.putmulti(lifted)
                for _, value in some:
                    sums += number_of(value[:CHECKSUM_BYTES], "little")
                records += len(some)
            # One call in C for all of them. In the order of the keys: each page of the
            # tree is touched once.
            cursor.putmulti(sorted(new.items()))
            for value in new.values():
                sums += number_of(value[:CHECKSUM_BYTES], "little")
            records += len(new)
        self._totals[table] = [records, sums]

    def seal(self) -> Ledger:
        """Write the ledger: the number of records of each table, and their sums."""
        totals = {
            name: [records, sums % MODULUS]
            for name, (records, sums) in self._totals.items()
        }
        ledger = Ledger(self._txn.id(), totals)
        key = LEDGER.encode()
        value = json_of(
            {
                "transaction": ledger.transaction,
                "totals": {name.decode(): total for name, total in totals.items()},
            }
        )
        value = checksum(META, key, value) + value
        self._txn.put(key, value, db=self._tables[META])
        return ledger


def _lift(
    cursor: lmdb.Cursor, records: list[tuple[bytes, bytes]]
) -> list[tuple[bytes, bytes]]:
    """Take out and return about a page of the records that follow the new records."""
    if not cursor.set_range(records[0][0]) or not cursor.prev():
        return []  # no record follows, or none precedes
    lifted = []
    size = 0
    there = cursor.next()
    while there and size < LMDB_PAGE_BYTES:
        record = (bytes(cursor.key()), bytes(cursor.value()))
        lifted.append(record)
        size += len(record[0]) + len(record[1])
        cursor.delete()
        there = bool(cursor.key())  # now at the next record, if any
    return lifted
