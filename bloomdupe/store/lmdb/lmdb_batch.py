"""LmdbBatch: a write transaction of LMDB."""

from __future__ import annotations

from collections import defaultdict
from struct import unpack
from typing import TYPE_CHECKING, Any

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
from bloomdupe.store.participant import Batch

if TYPE_CHECKING:
    from collections.abc import Iterable

    import lmdb

    from bloomdupe.store.participant import Change


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

    def replace(self, table: bytes, gone: list[bytes], new: dict[bytes, bytes]) -> None:
        """Remove and store records of ``queue`` or ``later``."""
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
