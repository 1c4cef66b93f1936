"""Format: what the bytes in a store look like. Only this module knows.

Format 1. ``data.mdb`` has four named databases; three more stand beside them once a
frontier has been in use, and ``page_counts`` once pages per slot were bounded.
``sum`` is the first 8 bytes of
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
page_-    digest of the slot's name       sum + requests ever taken in u64 (little-
counts                                    endian; see :mod:`bloomdupe.limits`)
meta      ``ledger``                      sum + JSON: ``transaction``, the number
                                          of LMDB's transaction that wrote it;
                                          ``totals`` of each database: number of
                                          records, and their sums added up
                                          (modulo 2**64; of an identity, its two
                                          halves), this record left out
========= =============================== ====================================

Every transaction writes the ledger, so a record that is missing, outdated or
exchanged is seen, and so is a ledger that is not of the last transaction. Stores
from before have none, and get one; the others say so in ``store``.

A page's value is 8,176 bytes, which fills exactly two LMDB overflow pages.
``slots``, ``queue`` and payloads have a format number of their own, in the record
``frontier``.

Frozen by golden files: a store of format 1 opens for ever, or is refused with the
words that say what to do.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from pathlib import Path
from struct import Struct, unpack
from typing import TYPE_CHECKING, Any, NamedTuple

from mmh3 import mmh3_x64_128_digest, mmh3_x64_128_uintdigest

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
    "PAGE_COUNTS",
    "Batch",
    "JournalEntry",
    "Ledger",
    "Snapshot",
    "StoredRequest",
    "StoredSlot",
    "blob_sum",
    "database_of",
    "describe",
    "page_value",
    "read_record",
    "request_key",
    "request_record",
    "slot_of",
    "total_of",
]

MAGIC = "bloomdupe"
FORMAT = 1
PAGE_BYTES = PAGE_BITS // 8
LMDB_PAGE_BYTES = 4096
MANY = 40
"""Requests of a slot, in one checkpoint, that are worth some trouble."""
CHECKSUM_BYTES = 8
DATABASES = (b"meta", b"pages", b"journal", b"exact")
FRONTIER_DATABASES = (b"slots", b"queue")
BLOBS = b"blobs"
PAGE_COUNTS = b"page_counts"
OPTIONAL_DATABASES = (*FRONTIER_DATABASES, BLOBS, PAGE_COUNTS)
"""Made when they are first needed."""
FRONTIER_FORMAT = 1
"""Of ``slots``, ``queue`` and the payloads in it."""

_PAGE_KEY = Struct(">HI")
_JOURNAL_KEY = Struct(">Q")
_JOURNAL_HEAD = Struct("<HQ")
_SLOT_KEY = Struct(">I")
_SLOT_HEAD = Struct("<Q")
_COUNT = Struct("<Q")
_INVERTED = bytes(range(255, -1, -1))


LEDGER = "ledger"
_MODULUS = 1 << 64
_LOW_64 = _MODULUS - 1
_LOW_32 = (1 << 32) - 1

Totals = dict[bytes, list[int]]
"""Of each database: number of records, and their sums added up."""


class Ledger(NamedTuple):
    """What the last transaction says is in the store."""

    transaction: int
    totals: Totals


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


def _name_digest(slot: str) -> bytes:
    """Stand for the name of a slot, which may be longer than a key."""
    name = slot.encode(errors="surrogatepass")
    return hashlib.blake2b(name, digest_size=DIGEST_BYTES).digest()


def page_value(layer: int, page: int, bits: memoryview) -> bytes:
    """Return the value of a page: its checksum, then the bits' bytes."""
    bits = bits[:PAGE_BYTES]
    return b"".join((checksum(_PAGE_KEY.pack(layer, page), bits), bits))


def total_of(
    database: bytes, keys: list[bytes], values: list[bytes]
) -> tuple[int, list[int]]:
    """Return the sums of records added up, and the places of those with a wrong one."""
    if database == b"exact":
        wrong = [
            place
            for place, (key, value) in enumerate(zip(keys, values, strict=True))
            if len(key) != DIGEST_BYTES or value
        ]
        halves = b"".join(keys)
        return sum(unpack(f"<{len(halves) // 8}Q", halves[: len(halves) & ~7])), wrong
    as_number = int.from_bytes
    digest = mmh3_x64_128_uintdigest
    stored = [as_number(value[:CHECKSUM_BYTES], "little") for value in values]
    # The same as checksum(), faster.
    right = [
        digest(value[CHECKSUM_BYTES:], digest(key) & _LOW_32) & _LOW_64
        for key, value in zip(keys, values, strict=True)
    ]
    wrong = []
    if stored != right:
        wrong = [at for at, sums in enumerate(stored) if sums != right[at]]
    return sum(stored), wrong


def database_of(key: bytes, value: bytes) -> bytes | None:
    """Tell where a record belongs that is found outside of its tree; None: nowhere.

    No two databases have keys and values of the same form, and for what has a sum,
    that must be right.
    """
    size = len(key)
    if not value:
        return b"exact" if size == DIGEST_BYTES else None
    if total_of(b"", [key], [value])[1]:
        return None
    if size == _PAGE_KEY.size and len(value) == CHECKSUM_BYTES + PAGE_BYTES:
        return b"pages"
    if size == _SLOT_KEY.size:
        return b"slots"
    if size == DIGEST_BYTES and len(value) == CHECKSUM_BYTES + _COUNT.size:
        return PAGE_COUNTS
    if size == _JOURNAL_KEY.size and key[:2] == bytes(2):
        return b"journal"  # a request's rank never begins with 0 when inverted
    if key.isalnum() and value[CHECKSUM_BYTES:].startswith(b"{"):
        return b"meta"
    if key.isalnum() and size < _JOURNAL_KEY.size:
        return BLOBS
    return b"queue" if size >= _JOURNAL_KEY.size else None


def slot_of(key: bytes) -> tuple[int, bytes]:
    """Return slot and rank of a key in ``queue``."""
    size = 1 << (key[0] >> 6)
    number = int.from_bytes(key[:size], "big") & (1 << 8 * size - 2) - 1
    return number, key[size:].translate(_INVERTED)


def describe(database: bytes, key: bytes) -> str:
    """Say what a key stands for, for a message."""
    if database == b"meta":
        return f"record {key.decode(errors='replace')!r}"
    if database == b"pages" and len(key) == _PAGE_KEY.size:
        layer, page = _PAGE_KEY.unpack(key)
        return f"page {page} of layer {layer}"
    if database == b"journal" and len(key) == _JOURNAL_KEY.size:
        return f"journal entry {_JOURNAL_KEY.unpack(key)[0]}"
    if database == b"slots" and len(key) == _SLOT_KEY.size:
        return f"slot {_SLOT_KEY.unpack(key)[0]}"
    kind = {b"queue": "request", b"exact": "exact key"}.get(database)
    return f"{kind or database.decode(errors='replace')} {key.hex()}"


def read_record(value: bytes) -> dict[str, Any] | None:
    """Return what a value of ``meta`` says; None if it is of another database."""
    try:
        record = json.loads(value[CHECKSUM_BYTES:])
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


class Batch:
    """One write transaction, in the words of the filter.

    ``totals`` are those of the last transaction. :meth:`seal` must come last.
    """

    def __init__(
        self,
        txn: lmdb.Transaction,
        databases: dict[bytes, Any],
        totals: Totals | None = None,
    ) -> None:
        self._txn = txn
        self._databases = databases
        self._totals: Totals = defaultdict(lambda: [0, 0])
        for name, (records, sums) in (totals or {}).items():
            self._totals[name] = [records, sums]
        self._meta = databases[b"meta"]
        self._journal = databases[b"journal"]
        self._exact = databases[b"exact"]

    def _put(self, database: bytes, key: bytes, value: bytes) -> None:
        """Store a value that begins with its sum, in the place of another or not."""
        before = self._txn.replace(key, value, db=self._databases[database])
        total = self._totals[database]
        if before is None:
            total[0] += 1
        else:
            total[1] -= _sum_of(before)
        total[1] += _sum_of(value)

    def _delete(self, database: bytes, key: bytes) -> None:
        before = self._txn.pop(key, db=self._databases[database])
        if before is not None:
            total = self._totals[database]
            total[0] -= 1
            total[1] -= _sum_of(before)

    def seal(self) -> Ledger:
        """Write down what is in the store now."""
        totals = {
            name: [records, sums % _MODULUS]
            for name, (records, sums) in self._totals.items()
        }
        ledger = Ledger(self._txn.id(), totals)
        key = LEDGER.encode()
        value = _json(
            {
                "transaction": ledger.transaction,
                "totals": {name.decode(): total for name, total in totals.items()},
            }
        )
        self._txn.put(key, checksum(key, value) + value, db=self._meta)
        return ledger

    def put_again(self, database: bytes, key: bytes, value: bytes) -> None:
        """Store a record as it was found elsewhere.

        Of a page, all bits that are set in either stay; of anything else, what is
        there already.
        """
        if database == b"exact":
            self.put_exact([key])
            return
        there = self._txn.get(key, db=self._databases[database])
        if there is not None and database == b"pages":
            both = int.from_bytes(there[CHECKSUM_BYTES:], "little")
            both |= int.from_bytes(value[CHECKSUM_BYTES:], "little")
            bits = both.to_bytes(PAGE_BYTES, "little")
            value, there = checksum(key, bits) + bits, None
        if there is None:
            self._put(database, key, value)

    def put_record(self, name: str, record: dict[str, Any]) -> None:
        """Store a named record of numbers and texts."""
        key = name.encode()
        value = _json(record)
        self._put(b"meta", key, checksum(key, value) + value)

    def put_page(self, layer: int, page: int, value: bytes) -> None:
        """Store what :func:`page_value` made."""
        self._put(b"pages", _PAGE_KEY.pack(layer, page), value)

    def put_journal(self, entry: JournalEntry) -> None:
        """Append an entry."""
        key = _JOURNAL_KEY.pack(entry.sequence)
        value = _JOURNAL_HEAD.pack(entry.layer, entry.swept) + entry.digests
        self._put(b"journal", key, checksum(key, value) + value)

    def delete_journal(self, sequence: int) -> None:
        """Remove an entry whose digests are all in their pages."""
        self._delete(b"journal", _JOURNAL_KEY.pack(sequence))

    def put_exact(self, identities: Iterable[bytes]) -> None:
        """Store exact identities of keys."""
        total = self._totals[b"exact"]
        for identity in identities:
            if self._txn.put(identity, b"", overwrite=False, db=self._exact):
                total[0] += 1
                total[1] += sum(unpack("<QQ", identity))

    def put_requests(self, slots: Iterable[list[tuple[bytes, bytes]]]) -> None:
        """Store what :func:`request_record` made, of each slot in the order of keys.

        LMDB fills its pages only where records are appended at their ends; a page in
        which other records follow it splits into halves, over and over. So where a
        slot gets many, a page of those that follow is lifted and put back on top.
        """
        few: list[tuple[bytes, bytes]] = []
        with self._txn.cursor(self._databases[b"queue"]) as cursor:
            for records in slots:
                if len(records) > MANY:
                    lifted = _lift(cursor, records)
                    cursor.putmulti(records)
                    cursor.putmulti(lifted)
                else:
                    few += records
            cursor.putmulti(few)  # one call in C for all of them

    def delete_requests(self, keys: list[bytes]) -> None:
        """Remove requests, best in the order of the keys."""
        delete, queue = self._txn.delete, self._databases[b"queue"]
        for key in keys:
            delete(key, db=queue)

    def put_slots(self, slots: Iterable[tuple[int, int, str]]) -> None:
        """Store slots (see :class:`StoredSlot`); those without requests are removed."""
        txn, database = self._txn, self._databases[b"slots"]
        records, sums = self._totals[b"slots"]
        # As _put() and _delete(), but a crawl of many hosts changes many slots.
        for number, requests, name in slots:
            key = _SLOT_KEY.pack(number)
            if requests:
                value = _SLOT_HEAD.pack(requests) + name.encode(errors="surrogatepass")
                value = checksum(key, value) + value
                before = txn.replace(key, value, db=database)
                sums += _sum_of(value)
                records += before is None
            else:
                before = txn.pop(key, db=database)
                records -= before is not None
            if before is not None:
                sums -= _sum_of(before)
        self._totals[b"slots"] = [records, sums]

    def count_requests(self, requests: int, sums: int) -> None:
        """Say how many requests are stored now, and what their sums add up to."""
        self._totals[b"queue"] = [requests, sums]

    def put_blob(self, name: str, value: bytes) -> None:
        """Store some bytes under a name."""
        key = name.encode()
        self._put(BLOBS, key, checksum(key, value) + value)

    def delete_blob(self, name: str) -> None:
        """Remove what is stored under a name."""
        self._delete(BLOBS, name.encode())

    def put_page_counts(self, counts: dict[str, int]) -> None:
        """Store how many requests of these slots were ever taken in."""
        for slot, count in counts.items():
            key = _name_digest(slot)
            value = _COUNT.pack(count)
            self._put(PAGE_COUNTS, key, checksum(key, value) + value)

    def clear(self) -> None:
        """Remove all pages, journal entries and exact identities."""
        for name in (b"pages", b"journal", b"exact"):
            self._txn.drop(self._databases[name], delete=False)
            self._totals[name] = [0, 0]


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

    def ledger(self) -> Ledger | None:
        """Return the ledger, or None in a store from before there was one."""
        record = self.record(LEDGER)
        if record is None:
            return None
        totals = {name.encode(): total for name, total in record["totals"].items()}
        return Ledger(record["transaction"], totals)

    @property
    def transaction(self) -> int:
        """Number of the transaction that is looked at."""
        return int(self._txn.id())

    def page_count(self, slot: str) -> int:
        """Return how many requests of a slot were ever taken in."""
        key = _name_digest(slot)
        value = self._get(key, PAGE_COUNTS)
        if value is None:
            return 0
        (count,) = _COUNT.unpack(self._checked(key, value, f"count of slot {slot!r}"))
        return int(count)

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

    def pages(self) -> Iterator[tuple[int, bytes]]:
        """Yield layer and value of all pages."""
        with self._txn.cursor(self._databases[b"pages"]) as cursor:
            for key, value in cursor:
                layer, page = _PAGE_KEY.unpack(key)
                self._checked(bytes(key), memoryview(value), f"page {page}")
                yield layer, bytes(value)

    def queue(self) -> Iterator[tuple[int, StoredRequest]]:
        """Yield slot and request of all requests."""
        with self._txn.cursor(self._databases[b"queue"]) as cursor:
            for key, value in cursor:
                slot, rank = slot_of(bytes(key))
                body = self._checked(bytes(key), memoryview(value), "a request")
                yield slot, StoredRequest(rank, bytes(body), _sum_of(value))

    def blob_sums(self) -> dict[str, str]:
        """Return the :func:`blob_sum` of everything that is stored under a name."""
        with self._txn.cursor(self._databases[BLOBS]) as cursor:
            return {
                bytes(key).decode(): bytes(value[:CHECKSUM_BYTES]).hex()
                for key, value in cursor
            }

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


def _json(record: dict[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode()


def _sum_of(value: Buffer) -> int:
    return int.from_bytes(memoryview(value)[:CHECKSUM_BYTES], "little")


def _lift(
    cursor: lmdb.Cursor, records: list[tuple[bytes, bytes]]
) -> list[tuple[bytes, bytes]]:
    """Take out a page of those that will follow new records, and return them."""
    if not cursor.set_range(records[0][0]) or not cursor.prev():
        return []  # nothing follows; or nothing precedes, where no page has its end
    lifted = []
    size = 0
    there = cursor.next()
    while there and size < LMDB_PAGE_BYTES:
        record = (bytes(cursor.key()), bytes(cursor.value()))
        lifted.append(record)
        size += len(record[0]) + len(record[1])
        cursor.delete()
        there = bool(cursor.key())  # it stands on the next record now, if there is one
    return lifted


def damaged(place: str, what: str) -> StoreDamagedError:
    """Return the error that names the file, what is wrong, and what helps."""
    store = Path(place).parent
    return StoreDamagedError(
        f"{place}: {what}; `bloomdupe restore BACKUP {store}` puts a backup in its"
        f" place, `bloomdupe repair {store} NEW` saves what can be read, and"
        f" `bloomdupe verify {store}` lists what cannot"
    )
