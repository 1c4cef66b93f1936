"""Format: what the bytes in a store look like.

Written by :mod:`bloomdupe.batch`, read by :mod:`bloomdupe.snapshot`.

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
from pathlib import Path
from struct import Struct, unpack
from typing import TYPE_CHECKING, Any, NamedTuple

from mmh3 import mmh3_x64_128_digest, mmh3_x64_128_uintdigest

from bloomdupe.errors import StoreDamagedError
from bloomdupe.hashing import DIGEST_BYTES
from bloomdupe.sizing import PAGE_BITS

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "BLOBS",
    "CHECKSUM_BYTES",
    "COUNT",
    "DATABASES",
    "FORMAT",
    "FRONTIER_DATABASES",
    "FRONTIER_FORMAT",
    "INVERTED",
    "JOURNAL_HEAD",
    "JOURNAL_KEY",
    "LEDGER",
    "MAGIC",
    "MODULUS",
    "OPTIONAL_DATABASES",
    "PAGE_BYTES",
    "PAGE_COUNTS",
    "PAGE_KEY",
    "SLOT_HEAD",
    "SLOT_KEY",
    "JournalEntry",
    "Ledger",
    "StoredRequest",
    "StoredSlot",
    "Totals",
    "blob_sum",
    "checksum",
    "damaged",
    "database_of",
    "describe",
    "json_of",
    "name_digest",
    "page_value",
    "read_record",
    "request_key",
    "request_record",
    "slot_of",
    "slot_prefix",
    "sum_of",
    "total_of",
]

MAGIC = "bloomdupe"
FORMAT = 1
PAGE_BYTES = PAGE_BITS // 8
CHECKSUM_BYTES = 8
DATABASES = (b"meta", b"pages", b"journal", b"exact")
FRONTIER_DATABASES = (b"slots", b"queue")
BLOBS = b"blobs"
PAGE_COUNTS = b"page_counts"
OPTIONAL_DATABASES = (*FRONTIER_DATABASES, BLOBS, PAGE_COUNTS)
"""Made when they are first needed."""
FRONTIER_FORMAT = 1
"""Of ``slots``, ``queue`` and the payloads in it."""

PAGE_KEY = Struct(">HI")
JOURNAL_KEY = Struct(">Q")
JOURNAL_HEAD = Struct("<HQ")
SLOT_KEY = Struct(">I")
SLOT_HEAD = Struct("<Q")
COUNT = Struct("<Q")
INVERTED = bytes(range(255, -1, -1))


LEDGER = "ledger"
MODULUS = 1 << 64
_LOW_64 = MODULUS - 1
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
    return slot_prefix(slot) + rank.translate(INVERTED)


def slot_prefix(slot: int) -> bytes:
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


def name_digest(slot: str) -> bytes:
    """Stand for the name of a slot, which may be longer than a key."""
    name = slot.encode(errors="surrogatepass")
    return hashlib.blake2b(name, digest_size=DIGEST_BYTES).digest()


def page_value(layer: int, page: int, bits: memoryview) -> bytes:
    """Return the value of a page: its checksum, then the bits' bytes."""
    bits = bits[:PAGE_BYTES]
    return b"".join((checksum(PAGE_KEY.pack(layer, page), bits), bits))


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
    if size == PAGE_KEY.size and len(value) == CHECKSUM_BYTES + PAGE_BYTES:
        return b"pages"
    if size == SLOT_KEY.size:
        return b"slots"
    if size == DIGEST_BYTES and len(value) == CHECKSUM_BYTES + COUNT.size:
        return PAGE_COUNTS
    if size == JOURNAL_KEY.size and key[:2] == bytes(2):
        return b"journal"  # a request's rank never begins with 0 when inverted
    if key.isalnum() and value[CHECKSUM_BYTES:].startswith(b"{"):
        return b"meta"
    if key.isalnum() and size < JOURNAL_KEY.size:
        return BLOBS
    return b"queue" if size >= JOURNAL_KEY.size else None


def slot_of(key: bytes) -> tuple[int, bytes]:
    """Return slot and rank of a key in ``queue``."""
    size = 1 << (key[0] >> 6)
    number = int.from_bytes(key[:size], "big") & (1 << 8 * size - 2) - 1
    return number, key[size:].translate(INVERTED)


def describe(database: bytes, key: bytes) -> str:
    """Say what a key stands for, for a message."""
    if database == b"meta":
        return f"record {key.decode(errors='replace')!r}"
    if database == b"pages" and len(key) == PAGE_KEY.size:
        layer, page = PAGE_KEY.unpack(key)
        return f"page {page} of layer {layer}"
    if database == b"journal" and len(key) == JOURNAL_KEY.size:
        return f"journal entry {JOURNAL_KEY.unpack(key)[0]}"
    if database == b"slots" and len(key) == SLOT_KEY.size:
        return f"slot {SLOT_KEY.unpack(key)[0]}"
    kind = {b"queue": "request", b"exact": "exact key"}.get(database)
    return f"{kind or database.decode(errors='replace')} {key.hex()}"


def read_record(value: bytes) -> dict[str, Any] | None:
    """Return what a value of ``meta`` says; None if it is of another database."""
    try:
        record = json.loads(value[CHECKSUM_BYTES:])
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def json_of(record: dict[str, Any]) -> bytes:
    """Return a record as it is stored, without its sum."""
    return json.dumps(record, separators=(",", ":")).encode()


def sum_of(value: Buffer) -> int:
    """Return the sum at the head of a value, as a number."""
    return int.from_bytes(memoryview(value)[:CHECKSUM_BYTES], "little")


def damaged(place: str, what: str) -> StoreDamagedError:
    """Return the error that names the file, what is wrong, and what helps."""
    store = Path(place).parent
    return StoreDamagedError(
        f"{place}: {what}; `bloomdupe restore BACKUP {store}` puts a backup in its"
        f" place, `bloomdupe repair {store} NEW` saves what can be read, and"
        f" `bloomdupe verify {store}` lists what cannot"
    )
