"""Format: what the bytes in a store look like. Only this module knows.

Format 1. ``data.mdb`` has four named databases; three more stand beside them once a
frontier has been in use. ``sum`` is the first 8 bytes of
murmur3_x64_128 of the rest of the value, seeded with the first four bytes
(little-endian) of murmur3_x64_128 of the key, so that a value under a wrong
key is found, too.

========= =============================== ====================================
database  key                             value
========= =============================== ====================================
meta      ``store``                       sum + JSON: magic, format, identity
                                          of the job, and the parameters that
                                          never change (see :meth:`create`)
meta      ``filter``                      sum + JSON: state of the filter
                                          (:class:`bloomdupe.BloomFilter`)
pages     layer u16, page u32 (big-       sum + 8,168 bytes: bit i is bit
          endian)                         ``i & 7`` of byte ``i >> 3``; an
                                          absent page is all zeros
journal   sequence u64 (big-endian)       sum + layer u16, swept u64 (little-
                                          endian) + digests of 16 bytes
exact     16-byte identity of a key       empty
meta      ``frontier``                    sum + JSON: state of the frontier
                                          (:class:`bloomdupe.frontier.Frontier`)
slots     slot u32 (big-endian)           sum + requests in ``queue`` u64
                                          (little-endian) + name in UTF-8
queue     slot (QUIC's variable-length    sum + payload (see
          integer: RFC 9000, section 16), :mod:`bloomdupe.serializer`)
          rank (see
          :mod:`bloomdupe.rank`)
          inverted: the slot's last key
          goes first
meta      ``crawl``                       sum + JSON: items, totals, delays
                                          (:class:`bloomdupe.cut.Cut`)
blobs     name                            sum + bytes (see the record
                                          ``crawl``)
========= =============================== ====================================

A page's value is 8,176 bytes, which fills exactly two LMDB overflow pages.
``slots``, ``queue`` and payloads have a format number of their own, in the record
``frontier``.

Frozen by golden files: a store of format 1 opens for ever, or is refused with the
words that say what to do.
"""

from __future__ import annotations

import json
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from mmh3 import mmh3_x64_128_digest

from bloomdupe.errors import StoreDamagedError
from bloomdupe.hashing import DIGEST_BYTES
from bloomdupe.sizing import PAGE_BITS

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    import lmdb
    from typing_extensions import Buffer

__all__ = [
    "BLOBS",
    "CHECKSUM_BYTES",
    "DATABASES",
    "FORMAT",
    "FRONTIER_DATABASES",
    "FRONTIER_FORMAT",
    "MAGIC",
    "OPTIONAL_DATABASES",
    "Batch",
    "JournalEntry",
    "Snapshot",
    "StoredRequest",
    "StoredSlot",
    "blob_sum",
    "page_value",
    "request_key",
    "request_record",
]

MAGIC = "bloomdupe"
FORMAT = 1
PAGE_BYTES = PAGE_BITS // 8
CHECKSUM_BYTES = 8
DATABASES = (b"meta", b"pages", b"journal", b"exact")
FRONTIER_DATABASES = (b"slots", b"queue")
BLOBS = b"blobs"
OPTIONAL_DATABASES = (*FRONTIER_DATABASES, BLOBS)
"""Made when they are first needed."""
FRONTIER_FORMAT = 1
"""Of ``slots``, ``queue`` and the payloads in it."""

_PAGE_KEY = Struct(">HI")
_JOURNAL_KEY = Struct(">Q")
_JOURNAL_HEAD = Struct("<HQ")
_SLOT_KEY = Struct(">I")
_SLOT_HEAD = Struct("<Q")
_INVERTED = bytes(range(255, -1, -1))


class JournalEntry(NamedTuple):
    """Digests added to one layer between two checkpoints."""

    sequence: int
    """Position in the journal; consecutive."""
    layer: int
    swept: int
    """How many pages of the layer had been swept when the entry was written."""
    digests: bytes
    """16 bytes each."""


class StoredRequest(NamedTuple):
    """A request of the frontier, as it is stored."""

    rank: bytes
    payload: bytes
    checksum: int


class StoredSlot(NamedTuple):
    """A slot of the frontier that has requests in the store."""

    number: int
    requests: int
    name: str


def request_record(slot: int, rank: bytes, payload: bytes) -> tuple[bytes, bytes]:
    """Return key and value of a request in ``queue``."""
    key = request_key(slot, rank)
    return key, checksum(key, payload) + payload


def request_key(slot: int, rank: bytes) -> bytes:
    """Return the key of a request in ``queue``."""
    # Inverted, because LMDB packs its pages full where keys are appended in order,
    # and most crawls take the newest request first.
    return _slot_prefix(slot) + rank.translate(_INVERTED)


def _slot_prefix(slot: int) -> bytes:
    """Return the number of a slot so that it sorts, and begins no other one."""
    if slot < 1 << 6:
        return bytes((slot,))
    if slot < 1 << 14:
        return (1 << 14 | slot).to_bytes(2, "big")
    if slot < 1 << 30:
        return (2 << 30 | slot).to_bytes(4, "big")
    return (3 << 62 | slot).to_bytes(8, "big")


def checksum(key: bytes, value: Buffer) -> bytes:
    """Eight bytes that depend on the value and on the key it is stored under."""
    seed = int.from_bytes(mmh3_x64_128_digest(key)[:4], "little")
    return mmh3_x64_128_digest(value, seed)[:CHECKSUM_BYTES]


def blob_sum(name: str, value: bytes) -> str:
    """Return the checksum of a named value, in hexadecimal."""
    return checksum(name.encode(), value).hex()


def page_value(layer: int, page: int, bits: memoryview) -> bytes:
    """Return the value of a page: its checksum, then the bits' bytes."""
    bits = bits[:PAGE_BYTES]
    return b"".join((checksum(_PAGE_KEY.pack(layer, page), bits), bits))


class Batch:
    """One write transaction, in the words of the filter."""

    def __init__(self, txn: lmdb.Transaction, databases: dict[bytes, Any]) -> None:
        self._txn = txn
        self._databases = databases
        self._meta = databases[b"meta"]
        self._pages = databases[b"pages"]
        self._journal = databases[b"journal"]
        self._exact = databases[b"exact"]

    def put_record(self, name: str, record: dict[str, Any]) -> None:
        """Store a named record of numbers and texts."""
        key = name.encode()
        value = json.dumps(record, separators=(",", ":")).encode()
        self._txn.put(key, checksum(key, value) + value, db=self._meta)

    def put_page(self, layer: int, page: int, value: bytes) -> None:
        """Store what :func:`page_value` made."""
        self._txn.put(_PAGE_KEY.pack(layer, page), value, db=self._pages)

    def put_journal(self, entry: JournalEntry) -> None:
        """Append an entry."""
        key = _JOURNAL_KEY.pack(entry.sequence)
        value = _JOURNAL_HEAD.pack(entry.layer, entry.swept) + entry.digests
        self._txn.put(key, checksum(key, value) + value, append=True, db=self._journal)

    def delete_journal(self, sequence: int) -> None:
        """Remove an entry whose digests are all in their pages."""
        self._txn.delete(_JOURNAL_KEY.pack(sequence), db=self._journal)

    def put_exact(self, identities: Iterable[bytes]) -> None:
        """Store exact identities of keys."""
        for identity in identities:
            self._txn.put(identity, b"", db=self._exact)

    def put_requests(self, records: list[tuple[bytes, bytes]]) -> None:
        """Store what :func:`request_record` made, best in the order of the keys."""
        # One call in C for all of them.
        with self._txn.cursor(self._databases[b"queue"]) as cursor:
            cursor.putmulti(records)

    def delete_requests(self, keys: list[bytes]) -> None:
        """Remove requests, best in the order of the keys."""
        delete, queue = self._txn.delete, self._databases[b"queue"]
        for key in keys:
            delete(key, db=queue)

    def put_slots(self, slots: Iterable[tuple[int, int, str]]) -> None:
        """Store slots (see :class:`StoredSlot`); those without requests are removed."""
        txn, database = self._txn, self._databases[b"slots"]
        for number, requests, name in slots:
            key = _SLOT_KEY.pack(number)
            if requests:
                value = _SLOT_HEAD.pack(requests) + name.encode(errors="surrogatepass")
                txn.put(key, checksum(key, value) + value, db=database)
            else:
                txn.delete(key, db=database)

    def put_blob(self, name: str, value: bytes) -> None:
        """Store some bytes under a name."""
        key = name.encode()
        self._txn.put(key, checksum(key, value) + value, db=self._databases[BLOBS])

    def delete_blob(self, name: str) -> None:
        """Remove what is stored under a name."""
        self._txn.delete(name.encode(), db=self._databases[BLOBS])

    def clear(self) -> None:
        """Remove all pages, journal entries and exact identities."""
        for database in (self._pages, self._journal, self._exact):
            self._txn.drop(database, delete=False)


class Snapshot:
    """One read transaction, in the words of the filter.

    Raises :class:`~bloomdupe.errors.StoreDamagedError` for a value whose checksum
    is wrong; ``place`` names the file in its message.
    """

    def __init__(
        self, txn: lmdb.Transaction, databases: dict[bytes, Any], place: str
    ) -> None:
        self._txn = txn
        self._databases = databases
        self._place = place
        self._queue_cursor: lmdb.Cursor | None = None

    def record(self, name: str) -> dict[str, Any] | None:
        """Return the named record, or None if there is none."""
        key = name.encode()
        value = self._get(key, b"meta")
        if value is None:
            return None
        body = self._checked(key, value, f"record {name!r}")
        record: dict[str, Any] = json.loads(bytes(body))
        return record

    def blob(self, name: str, expected: str) -> bytes:
        """Return what is stored under a name; its :func:`blob_sum` must be this."""
        key = name.encode()
        value = self._get(key, BLOBS)
        if value is None:
            raise damaged(self._place, f"{name!r} is missing")
        body = bytes(self._checked(key, value, repr(name)))
        if value[:CHECKSUM_BYTES].hex() != expected:
            raise damaged(self._place, f"{name!r} is outdated")
        return body

    def page(self, layer: int, page: int) -> bytes | None:
        """Return the value of a page, or None if it was never stored."""
        key = _PAGE_KEY.pack(layer, page)
        value = self._get(key, b"pages")
        if value is None:
            return None
        self._checked(key, value, f"page {page} of layer {layer}")
        return bytes(value)

    def journal(self) -> Iterator[JournalEntry]:
        """Yield all entries, oldest first."""
        with self._txn.cursor(self._databases[b"journal"]) as cursor:
            for key, value in cursor:
                (sequence,) = _JOURNAL_KEY.unpack(key)
                what = f"journal entry {sequence}"
                body = self._checked(bytes(key), memoryview(value), what)
                layer, swept = _JOURNAL_HEAD.unpack_from(body)
                digests = bytes(body[_JOURNAL_HEAD.size :])
                if len(digests) % DIGEST_BYTES:
                    raise damaged(self._place, f"{what} is damaged")
                yield JournalEntry(sequence, layer, swept, digests)

    def has_exact(self, identity: bytes) -> bool:
        """Whether the exact identity of a key is stored."""
        return self._get(identity, b"exact") is not None

    def exact_ids(self) -> Iterator[bytes]:
        """Yield all exact identities, in order."""
        with self._txn.cursor(self._databases[b"exact"]) as cursor:
            for identity in cursor.iternext(keys=True, values=False):
                yield bytes(identity)

    def slots(self) -> Iterator[StoredSlot]:
        """Yield all slots of the frontier."""
        with self._txn.cursor(self._databases[b"slots"]) as cursor:
            for key, value in cursor:
                (number,) = _SLOT_KEY.unpack(key)
                body = self._checked(bytes(key), memoryview(value), f"slot {number}")
                (requests,) = _SLOT_HEAD.unpack_from(body)
                name = str(body[_SLOT_HEAD.size :], "utf-8", "surrogatepass")
                yield StoredSlot(number, requests, name)

    def requests(self, slot: int, after: bytes) -> Iterator[StoredRequest]:
        """Yield the requests of a slot whose rank is above ``after``, next one first.

        :data:`bloomdupe.rank.BEFORE_ALL` yields them all.
        """
        while found := self.next_requests(slot, after, (), 1000):
            yield from map(StoredRequest._make, found)
            after = found[-1][0]

    def next_requests(
        self, slot: int, after: bytes, but: Container[bytes], limit: int
    ) -> list[tuple[bytes, bytes, int]]:
        """Return the first ``limit`` of them whose ranks are not among ``but``.

        Plain tuples of what makes a :class:`StoredRequest`: this is a hot path.
        """
        cursor = self._queue_cursor
        if cursor is None:
            cursor = self._txn.cursor(self._databases[b"queue"])
            self._queue_cursor = cursor
        prefix = _slot_prefix(slot)
        size = len(prefix)
        # The keys are inverted: go backwards from the first one that is too large.
        end = prefix + (after.translate(_INVERTED) if after else b"\xff")
        there = cursor.prev() if cursor.set_range(end) else cursor.last()
        found: list[tuple[bytes, bytes, int]] = []
        while there:
            key = bytes(cursor.key())
            if not key.startswith(prefix):
                break
            rank = key[size:].translate(_INVERTED)
            if rank not in but:
                value = cursor.value()
                head, body = value[:CHECKSUM_BYTES], value[CHECKSUM_BYTES:]
                if head != checksum(key, body):
                    raise damaged(self._place, f"request {rank.hex()} is damaged")
                found.append((rank, bytes(body), int.from_bytes(head, "little")))
                if len(found) == limit:
                    break
            there = cursor.prev()
        return found

    def end(self) -> None:
        """Give back what was opened, the transaction included."""
        if self._queue_cursor is not None:
            self._queue_cursor.close()
        self._txn.abort()

    def entries(self, database: str) -> int:
        """Count the entries of a database without reading them."""
        return int(self._txn.stat(self._databases[database.encode()])["entries"])

    def expect_entries(self, database: str, expected: int) -> None:
        """Refuse a database in which records are missing, without reading them."""
        found = self.entries(database)
        if found != expected:
            raise damaged(
                self._place,
                f"{found:,} {database} records stand where {expected:,} were written",
            )

    def _get(self, key: bytes, database: bytes) -> memoryview | None:
        value = self._txn.get(key, db=self._databases[database])
        return None if value is None else memoryview(value)

    def _checked(self, key: bytes, value: memoryview, what: str) -> memoryview:
        body = value[CHECKSUM_BYTES:]
        if value[:CHECKSUM_BYTES] != checksum(key, body):
            raise damaged(self._place, f"{what} is damaged")
        return body


def damaged(place: str, what: str) -> StoreDamagedError:
    """Return the error that names the file, what is wrong, and what helps."""
    return StoreDamagedError(
        f"{place}: {what}; restore the store from a backup, or move it away to start"
        " anew"
    )
