"""LmdbSnapshot: a read transaction of LMDB."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from bloomdupe.store.format import (
    CHECKSUM_BYTES,
    INVERTED,
    LATER,
    LEDGER,
    PAGE_KEY,
    PAGES,
    QUEUE,
    Ledger,
    StoredLater,
    StoredRequest,
    checksum,
    damaged,
    read_later,
    slot_prefix,
)
from bloomdupe.store.progress import told
from bloomdupe.store.snapshot import READ_BYTES, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    import lmdb

    from bloomdupe.errors import StoreError


class LmdbSnapshot(Snapshot):
    """A read transaction; ``file`` names the data file in messages."""

    def __init__(
        self, txn: lmdb.Transaction, tables: dict[bytes, Any], file: str
    ) -> None:
        self._txn = txn
        self._tables = tables
        self._file = file
        self._queue_cursor: lmdb.Cursor | None = None

    @property
    def transaction(self) -> int:
        """Number of the last committed transaction."""
        return int(self._txn.id())

    def damaged(self, what: str) -> StoreError:
        """Return the error that says what is damaged, and the remedy."""
        return damaged(self._file, what)

    # Any table

    def _stored(self, table: bytes, key: bytes) -> bytes | memoryview | None:
        return self._txn.get(key, db=self._tables[table])

    def has(self, table: bytes, key: bytes) -> bool:
        """Whether there is a record with this key."""
        return self._txn.get(key, db=self._tables[table]) is not None

    def values(self, table: bytes) -> Iterator[tuple[bytes, memoryview]]:
        """Yield keys and values, which begin with their sums, in order.

        The log says how far it is.
        """
        number = 0
        with self._txn.cursor(self._tables[table]) as cursor:
            task = f"Reading the {table.decode()} of {self._file}"
            for found, value in told(cursor, task, self.entries(table), "records"):
                key = bytes(found)
                yield key, self._checked(table, key, value)
                number += 1
        self.compare(table, number, self.entries(table))

    def keys(self, table: bytes) -> Iterator[bytes]:
        """Yield all keys, in order; values are not compared with their sums."""
        with self._txn.cursor(self._tables[table]) as cursor:
            for key in cursor.iternext(keys=True, values=False):
                yield bytes(key)

    def entries(self, table: bytes) -> int:
        """Count the records of a table without reading them."""
        return int(self._txn.stat(self._tables[table])["entries"])

    def version(self, table: bytes) -> object:
        """Return a value that is different when the table has changed."""
        return self.ledger().totals.get(table)

    def ledger(self) -> Ledger:
        """Return the ledger; every store has one."""
        record = self.record(LEDGER)
        if record is None:
            raise self.damaged("the ledger is missing")
        totals = {name.encode(): total for name, total in record["totals"].items()}
        return Ledger(record["transaction"], totals)

    # Pages of the filter

    def page_in_map(self, layer: int, page: int) -> memoryview | None:
        """Return the value of a page where it lies, without a look at its checksum.

        It is valid until the transaction ends. This is a hot path.
        """
        key = PAGE_KEY.pack(layer, page)
        # A memoryview, because the transaction has buffers=True.
        return self._txn.get(key, None, self._tables[PAGES])  # type: ignore[return-value]

    # Requests

    def next_requests(
        self,
        slot: int,
        after: bytes,
        but: Container[bytes],
        limit: int,
    ) -> tuple[list[tuple[bytes, bytes, int]], bool]:
        """Return the first ``limit`` requests above ``after`` that are not in ``but``.

        And whether there may be more. It stops after ``READ_BYTES``. It returns plain
        tuples of the fields of a :class:`StoredRequest`, because this is a hot path.
        """
        cursor = self._queue_cursor
        if cursor is None:
            cursor = self._txn.cursor(self._tables[QUEUE])
            self._queue_cursor = cursor
        prefix = slot_prefix(slot)
        size = len(prefix)
        # The keys are inverted: go backwards from the first key that is too large.
        end = prefix + (after.translate(INVERTED) if after else b"\xff")
        there = cursor.prev() if cursor.set_range(end) else cursor.last()
        found: list[tuple[bytes, bytes, int]] = []
        most = READ_BYTES
        while there:
            key = bytes(cursor.key())
            if not key.startswith(prefix):
                break
            rank = key[size:].translate(INVERTED)
            if rank not in but:
                value = cursor.value()
                head, body = value[:CHECKSUM_BYTES], value[CHECKSUM_BYTES:]
                if head != checksum(QUEUE, key, body):
                    raise self._damaged(QUEUE, key)
                found.append((rank, bytes(body), int.from_bytes(head, "little")))
                most -= len(body)
                if len(found) == limit or most <= 0:
                    return found, True
            there = cursor.prev()
        return found, False

    def requests_that(
        self, may_be: Callable[[bytes], object], begin: bytes, limit: int
    ) -> tuple[int, list[tuple[int, StoredRequest]], bytes | None]:
        """Search the next ``limit`` requests from the key ``begin`` on.

        Returns their number, slot and request of those that ``may_be`` does not deny,
        and the key to go on from, if there are more. It is asked about all of their
        bytes first, so that usually no request is looked at alone.
        """
        found: list[tuple[int, StoredRequest]] = []
        with self._txn.cursor(self._tables[QUEUE]) as cursor:
            if not cursor.set_range(begin):
                return 0, found, None
            values = [*islice(cursor.iternext(keys=False), limit)]
            end = bytes(cursor.key()) if cursor.next() else None
            if may_be(b"\n".join(values)) and cursor.set_range(begin):
                for key, value in islice(cursor.iternext(), limit):
                    if may_be(bytes(value)):
                        checked = self._checked(QUEUE, bytes(key), value)
                        found.append(self._request(bytes(key), checked))
        return len(values), found, end

    def later(self, after: bytes = b"") -> Iterator[StoredLater]:
        """Yield the requests scheduled for later, in order, from above ``after``."""
        with self._txn.cursor(self._tables[LATER]) as cursor:
            there = cursor.set_range(after) if after else cursor.first()
            if there and bytes(cursor.key()) == after:
                there = cursor.next()
            while there:
                key = bytes(cursor.key())
                yield read_later(key, bytes(self._checked(LATER, key, cursor.value())))
                there = cursor.next()

    def end(self) -> None:
        """Close the cursor and end the transaction."""
        if self._queue_cursor is not None:
            self._queue_cursor.close()
        self._txn.abort()
