"""Snapshot: a read transaction: the tables as of the last commit."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

from bloomdupe.store.format import (
    BLOBS,
    CHECKSUM_BYTES,
    EXACT,
    INVERTED,
    LATER,
    LEDGER,
    META,
    PAGE_KEY,
    PAGES,
    QUEUE,
    SLOTS,
    Ledger,
    StoredLater,
    StoredRequest,
    StoredSlot,
    checksum,
    damaged,
    describe,
    read_later,
    read_slot,
    slot_of,
    slot_prefix,
    sum_of,
)
from bloomdupe.store.progress import told

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    import lmdb

    from bloomdupe.errors import StoreDamagedError

READ_BYTES = 1 << 20
"""Bytes of requests that are read at once: reading ends after them."""


class Snapshot:
    """A read transaction.

    Raises :class:`~bloomdupe.errors.StoreDamagedError` for a value with a wrong sum;
    ``file`` names the file in its message. :mod:`bloomdupe.store.format` declares the
    tables, their keys and values.
    """

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

    # Any table

    def get(self, table: bytes, key: bytes) -> memoryview | None:
        """Return the value under a key, without its sum; None if there is none."""
        value = self.value(table, key)
        return None if value is None else value[CHECKSUM_BYTES:]

    def value(self, table: bytes, key: bytes) -> memoryview | None:
        """Return the value under a key, which begins with its sum."""
        value = self._txn.get(key, db=self._tables[table])
        return None if value is None else self._checked(table, key, value)

    def blob(self, name: str, expected: str) -> bytes:
        """Return the bytes under a name; :func:`blob_sum` must be ``expected``."""
        value = self.value(BLOBS, name.encode())
        if value is None:
            raise damaged(self._file, f"{name!r} is missing")
        if value[:CHECKSUM_BYTES].hex() != expected:
            raise damaged(self._file, f"{name!r} is outdated")
        return bytes(value[CHECKSUM_BYTES:])

    def has(self, table: bytes, key: bytes) -> bool:
        """Whether there is a record with this key."""
        return self._txn.get(key, db=self._tables[table]) is not None

    def records(self, table: bytes) -> Iterator[tuple[bytes, memoryview]]:
        """Yield keys and values, without their sums; see :meth:`values`."""
        for key, value in self.values(table):
            yield key, value[CHECKSUM_BYTES:]

    def values(self, table: bytes) -> Iterator[tuple[bytes, memoryview]]:
        """Yield keys and values, which begin with their sums, in order.

        The log says how far it is. A table in which records are missing is refused.
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

    def expect_entries(self, table: bytes, expected: int) -> None:
        """Refuse a table in which records are missing, without reading them."""
        self.compare(table, self.entries(table), expected)

    def compare(self, table: bytes, found: int, expected: int) -> None:
        """Refuse a table in which another number of records was found."""
        if found != expected:
            raise damaged(
                self._file,
                f"{found:,} {table.decode()} records stand where {expected:,} were"
                " written",
            )

    # Records of meta

    def record(self, name: str) -> dict[str, Any] | None:
        """Return the named record, or None if it is missing."""
        value = self.get(META, name.encode())
        if value is None:
            return None
        record: dict[str, Any] = json.loads(bytes(value))
        return record

    def ledger(self) -> Ledger:
        """Return the ledger; every store has one."""
        record = self.record(LEDGER)
        if record is None:
            raise damaged(self._file, "the ledger is missing")
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

    def slots(self) -> Iterator[StoredSlot]:
        """Yield all slots of the frontier."""
        for key, value in self.records(SLOTS):
            yield read_slot(key, value)

    def requests(self, slot: int, after: bytes) -> Iterator[StoredRequest]:
        """Yield the requests of a slot with a rank above ``after``, in order.

        With :data:`bloomdupe.frontier.rank.BEFORE_ALL` it yields all requests.
        """
        while found := self.next_requests(slot, after, (), 1000)[0]:
            yield from map(StoredRequest._make, found)
            after = found[-1][0]

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

    @staticmethod
    def _request(key: bytes, value: memoryview) -> tuple[int, StoredRequest]:
        slot, rank = slot_of(key)
        payload = bytes(value[CHECKSUM_BYTES:])
        return slot, StoredRequest(rank, payload, sum_of(value))

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

    def _checked(
        self, table: bytes, key: bytes, value: bytes | memoryview
    ) -> memoryview:
        """Return a value, after it was compared with its sum."""
        value = memoryview(value)
        if table == EXACT and not value:
            return value  # its keys have no sums
        if value[:CHECKSUM_BYTES] != checksum(table, key, value[CHECKSUM_BYTES:]):
            raise self._damaged(table, key)
        return value

    def _damaged(self, table: bytes, key: bytes) -> StoreDamagedError:
        return damaged(self._file, f"{describe(table, key)} is damaged")
