"""Snapshot: a read transaction, in the words of filter and frontier."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

from bloomdupe.store.format import (
    BLOBS,
    CHECKSUM_BYTES,
    COOKIE_HEAD,
    COOKIES,
    COUNT,
    DELAY,
    DELAYS,
    DIGEST_BYTES,
    FAILURE_HEAD,
    FAILURES,
    HISTORY,
    HISTORY_HEAD,
    HISTORY_KEY,
    INVERTED,
    JOURNAL_HEAD,
    JOURNAL_KEY,
    LATER,
    LEDGER,
    PAGE_COUNTS,
    PAGE_KEY,
    SLOT_HEAD,
    SLOT_KEY,
    JournalEntry,
    Ledger,
    StoredLater,
    StoredRequest,
    StoredSlot,
    checksum,
    damaged,
    describe,
    name_digest,
    read_later,
    requests_in_slot,
    slot_of,
    slot_prefix,
    sum_of,
)
from bloomdupe.store.progress import told

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    import lmdb

    from bloomdupe.errors import StoreDamagedError

_COOKIE = CHECKSUM_BYTES + len(COOKIE_HEAD)
_FAILURE = CHECKSUM_BYTES + len(FAILURE_HEAD)
_POINT = CHECKSUM_BYTES + len(HISTORY_HEAD)

READ_BYTES = 1 << 20
"""Bytes of requests that are read at once: reading ends after them."""


class Snapshot:
    """A read transaction, in the words of filter and frontier.

    Raises :class:`~bloomdupe.errors.StoreDamagedError` for a value with a wrong
    checksum; ``file`` names the file in its message.
    """

    def __init__(
        self, txn: lmdb.Transaction, databases: dict[bytes, Any], file: str
    ) -> None:
        self._txn = txn
        self._databases = databases
        self._file = file
        self._queue_cursor: lmdb.Cursor | None = None

    def record(self, name: str) -> dict[str, Any] | None:
        """Return the named record, or None if it is missing."""
        value = self._get(b"meta", name.encode())
        if value is None:
            return None
        record: dict[str, Any] = json.loads(bytes(value[CHECKSUM_BYTES:]))
        return record

    def blob(self, name: str, expected: str) -> bytes:
        """Return the bytes under a name; :func:`blob_sum` must be ``expected``."""
        value = self._get(BLOBS, name.encode())
        if value is None:
            raise damaged(self._file, f"{name!r} is missing")
        if value[:CHECKSUM_BYTES].hex() != expected:
            raise damaged(self._file, f"{name!r} is outdated")
        return bytes(value[CHECKSUM_BYTES:])

    def ledger(self) -> Ledger:
        """Return the ledger; every store has one."""
        record = self.record(LEDGER)
        if record is None:
            raise damaged(self._file, "the ledger is missing")
        totals = {name.encode(): total for name, total in record["totals"].items()}
        return Ledger(record["transaction"], totals)

    @property
    def transaction(self) -> int:
        """Number of the last committed transaction."""
        return int(self._txn.id())

    def page_count(self, slot: str) -> int:
        """Return how many requests of a slot were ever accepted."""
        value = self._get(PAGE_COUNTS, name_digest(slot))
        return 0 if value is None else int(COUNT.unpack_from(value, CHECKSUM_BYTES)[0])

    def delay(self, slot: str) -> float | None:
        """Return the delay of a slot in seconds, or None if none was stored."""
        value = self._get(DELAYS, name_digest(slot))
        if value is None:
            return None
        return float(DELAY.unpack_from(value, CHECKSUM_BYTES)[1])

    def cookies(self) -> Iterator[bytes]:
        """Yield all cookies."""
        for _, value in self._all(COOKIES):
            yield bytes(value[_COOKIE:])

    @property
    def cookies_left_out(self) -> int:
        """How many cookies were left out when this store was made as a backup."""
        record = self.record(COOKIES.decode())
        return 0 if record is None else int(record["left_out"])

    def failures(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the digest of each request that has failed, and its failure."""
        for key, value in self._all(FAILURES):
            yield key, bytes(value[_FAILURE:])

    def failure(self, digest: bytes) -> bytes | None:
        """Return the failure of the request with this digest, if it has failed."""
        value = self._get(FAILURES, digest)
        return None if value is None else bytes(value[_FAILURE:])

    def history(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield milliseconds, run and content of all points, in this order."""
        for key, value in self._all(HISTORY):
            yield *HISTORY_KEY.unpack(key), bytes(value[_POINT:])

    def page(self, layer: int, page: int) -> bytes | None:
        """Return the value of a page, or None if it was never stored."""
        value = self._get(b"pages", PAGE_KEY.pack(layer, page))
        return None if value is None else bytes(value)

    def page_in_map(self, layer: int, page: int) -> memoryview | None:
        """Return the value of a page where it lies, without a look at its checksum.

        It is valid until the transaction ends. This is a hot path.
        """
        key = PAGE_KEY.pack(layer, page)
        # A memoryview, because the transaction has buffers=True.
        return self._txn.get(key, None, self._databases[b"pages"])  # type: ignore[return-value]

    def journal(self) -> Iterator[JournalEntry]:
        """Yield all entries, oldest first."""
        for key, value in self._all(b"journal"):
            (sequence,) = JOURNAL_KEY.unpack(key)
            layer, swept = JOURNAL_HEAD.unpack_from(value, CHECKSUM_BYTES)
            digests = bytes(value[CHECKSUM_BYTES + JOURNAL_HEAD.size :])
            if len(digests) % DIGEST_BYTES:
                raise self._damaged(b"journal", key)
            yield JournalEntry(sequence, layer, swept, digests)

    def pages(self) -> Iterator[tuple[int, bytes]]:
        """Yield layer and value of all pages."""
        for key, value in self._all(b"pages"):
            yield PAGE_KEY.unpack(key)[0], bytes(value)

    def queue(self) -> Iterator[tuple[int, StoredRequest]]:
        """Yield slot and request of all requests."""
        for key, value in self._all(b"queue"):
            yield self._request(key, value)

    def requests_that(
        self, may_be: Callable[[bytes], object], begin: bytes, limit: int
    ) -> tuple[int, list[tuple[int, StoredRequest]], bytes | None]:
        """Search the next ``limit`` requests from the key ``begin`` on.

        Returns their number, slot and request of those that ``may_be`` does not deny,
        and the key to go on from, if there are more. It is asked about all of their
        bytes first, so that usually no request is looked at alone.
        """
        found: list[tuple[int, StoredRequest]] = []
        with self._txn.cursor(self._databases[b"queue"]) as cursor:
            if not cursor.set_range(begin):
                return 0, found, None
            values = [*islice(cursor.iternext(keys=False), limit)]
            end = bytes(cursor.key()) if cursor.next() else None
            if may_be(b"\n".join(values)) and cursor.set_range(begin):
                for key, value in islice(cursor.iternext(), limit):
                    if may_be(bytes(value)):
                        checked = self._checked(b"queue", bytes(key), value)
                        found.append(self._request(bytes(key), checked))
        return len(values), found, end

    @staticmethod
    def _request(key: bytes, value: memoryview) -> tuple[int, StoredRequest]:
        slot, rank = slot_of(key)
        payload = bytes(value[CHECKSUM_BYTES:])
        return slot, StoredRequest(rank, payload, sum_of(value))

    def blob_sums(self) -> dict[str, str]:
        """Return the :func:`blob_sum` of everything that is stored under a name."""
        with self._txn.cursor(self._databases[BLOBS]) as cursor:
            return {
                bytes(key).decode(): bytes(value[:CHECKSUM_BYTES]).hex()
                for key, value in cursor
            }

    def has_exact(self, identity: bytes) -> bool:
        """Whether the exact identity of a key is stored."""
        return self._txn.get(identity, db=self._databases[b"exact"]) is not None

    def exact_ids(self) -> Iterator[bytes]:
        """Yield all exact identities, in order."""
        with self._txn.cursor(self._databases[b"exact"]) as cursor:
            for identity in cursor.iternext(keys=True, values=False):
                yield bytes(identity)

    def slots(self) -> Iterator[StoredSlot]:
        """Yield all slots of the frontier, if there ever was a frontier."""
        for key, value in self._all(b"slots"):
            (number,) = SLOT_KEY.unpack(key)
            name = value[CHECKSUM_BYTES + SLOT_HEAD.size :]
            yield StoredSlot(
                number, requests_in_slot(value), str(name, "utf-8", "surrogatepass")
            )

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
            cursor = self._txn.cursor(self._databases[b"queue"])
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
                if head != checksum(key, body):
                    raise self._damaged(b"queue", key)
                found.append((rank, bytes(body), int.from_bytes(head, "little")))
                most -= len(body)
                if len(found) == limit or most <= 0:
                    return found, True
            there = cursor.prev()
        return found, False

    def later(self, after: bytes = b"") -> Iterator[StoredLater]:
        """Yield the requests scheduled for later, in order, from above ``after``."""
        if LATER not in self._databases:
            return
        with self._txn.cursor(self._databases[LATER]) as cursor:
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

    def entries(self, database: str) -> int:
        """Count the entries of a database without reading them; 0 if it is absent."""
        found = self._databases.get(database.encode())
        return 0 if found is None else int(self._txn.stat(found)["entries"])

    def expect_entries(self, database: str, expected: int) -> None:
        """Refuse a database in which records are missing, without reading them."""
        self.compare(database, self.entries(database), expected)

    def compare(self, database: str, found: int, expected: int) -> None:
        """Refuse a database in which another number of records was found."""
        if found != expected:
            raise damaged(
                self._file,
                f"{found:,} {database} records stand where {expected:,} were written",
            )

    def expect_all(self, database: str, expected: int) -> None:
        """Refuse a database in which records are missing, and read all their keys.

        LMDB counts records in two places: in each page, and for the whole database.
        """
        found = self._databases.get(database.encode())
        if found is not None:
            with self._txn.cursor(found) as cursor:
                number = sum(1 for _ in cursor.iternext(keys=True, values=False))
            self.compare(database, number, expected)

    # An optional database that is absent has no records.

    def _get(self, database: bytes, key: bytes) -> memoryview | None:
        if database not in self._databases:
            return None
        value = self._txn.get(key, db=self._databases[database])
        return None if value is None else self._checked(database, key, value)

    def _all(self, database: bytes) -> Iterator[tuple[bytes, memoryview]]:
        """Yield all records of a database; the log says how far it is."""
        if database not in self._databases:
            return
        name, number = database.decode(), 0
        with self._txn.cursor(self._databases[database]) as cursor:
            task = f"Reading the {name} of {self._file}"
            for found, value in told(cursor, task, self.entries(name), "records"):
                key = bytes(found)
                yield key, self._checked(database, key, value)
                number += 1
        self.compare(name, number, self.entries(name))

    def _checked(
        self, database: bytes, key: bytes, value: bytes | memoryview
    ) -> memoryview:
        """Return a value of a record, after its checksum was compared."""
        value = memoryview(value)
        if value[:CHECKSUM_BYTES] != checksum(key, value[CHECKSUM_BYTES:]):
            raise self._damaged(database, key)
        return value

    def _damaged(self, database: bytes, key: bytes) -> StoreDamagedError:
        return damaged(self._file, f"{describe(database, key)} is damaged")
