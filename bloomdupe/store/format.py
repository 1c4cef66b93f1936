"""Format: the bytes of a store.

Written by :mod:`bloomdupe.store.batch`, read by :mod:`bloomdupe.store.snapshot`.

Format 2. ``data.mdb`` has four named databases. Three more are added when a frontier is
first used, ``page_counts`` when pages per slot are first bounded, ``delays`` with
AutoThrottle, ``cookies`` with the first cookie, ``later`` with the first request that
is scheduled for later, ``failures`` with the first failure, and ``history`` with the
first crawl.

``sum`` is the first 8 bytes of murmur3_x64_128 of the rest of the value, seeded with
the first four bytes (little-endian) of murmur3_x64_128 of the key, so that a value
under a wrong key is detected, too.

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
                                          (:class:`bloomdupe.frontier.frontier.Frontier`)
slots     slot u32 (big-endian)           sum + requests in ``queue`` u64
                                          (little-endian) + name in UTF-8
queue     slot (QUIC's variable-length    sum + payload (see
          integer: RFC 9000, section 16), :mod:`bloomdupe.crawl.requests.serializer`)
          rank (see
          :mod:`bloomdupe.frontier.rank`)
          inverted: the slot's last key
          goes first
meta      ``crawl``                       sum + JSON: items, totals, delays
                                          (:class:`bloomdupe.crawl.engines.checkpoint.CrawlRecord`)
blobs     name                            sum + bytes (see the record
                                          ``crawl``)
page_-    digest of the slot's name       sum + requests ever taken in u64 (little-
counts                                    endian; see ``bloomdupe.crawl.state.limits``)
delays    digest of the slot's name       sum + 0 u8 + seconds f64 (little-endian;
                                          see :mod:`bloomdupe.crawl.state.delays`)
cookies   digest of jar, domain, path     sum + ``C`` u8 + the cookie (see
          and name                        ``bloomdupe.crawl.state.cookies``): a secret
later     Unix time before which the      sum + ``L`` u8, flags u8 (1: a start
          request waits, microseconds     request), priority i64, length of the
          u64; sequence u64 (both         slot's name u32 (all little-endian), name
          big-endian)                     in UTF-8, payload (as in ``queue``)
failures  digest of the request's         sum + ``F`` u8 + the failure (see
          fingerprint                     :mod:`bloomdupe.crawl.leases.failure`)
history   milliseconds of Unix time u64,  sum + ``H`` u8 + how the crawl stood
          number of the run u64 (big-     then, or the run if the time is 0
          endian)                         (see :mod:`bloomdupe.crawl.progress.history`)
meta      ``cookies``                     sum + JSON: ``left_out``, how many cookies
                                          were not copied into this backup
meta      ``inbox``                       sum + JSON: changes made while it runs
                                          (:class:`bloomdupe.crawl.changes.taking_up.TakingUp`)
meta      ``ledger``                      sum + JSON: ``transaction``, the number
                                          of LMDB's transaction that wrote it;
                                          ``totals`` of each database: number of
                                          records, and their sums added up
                                          (modulo 2**64; of an identity, its two
                                          halves), this record left out
========= =============================== ====================================

Every transaction writes the ledger, so a record that is missing, outdated or exchanged
is detected, and so is a ledger that does not belong to the last transaction.

A page's value is 8,176 bytes, which fills exactly two LMDB overflow pages.
``slots``, ``queue`` and payloads have a format number of their own, in the record
``frontier``.

A store of another format is refused.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from struct import Struct, unpack
from typing import TYPE_CHECKING, Any, NamedTuple

from mmh3 import mmh3_x64_128_digest, mmh3_x64_128_uintdigest

from bloomdupe.errors import StoreDamagedError

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAGIC = "bloomdupe"
FORMAT = 2
PAGE_BYTES = 8168
"""Size of a page of bits: two LMDB overflow pages (8,176 bytes) less a checksum."""
DIGEST_BYTES = 16
"""Size of a key in the journal, an exact identity, and the digest of a name."""
CHECKSUM_BYTES = 8
DATABASES = (b"meta", b"pages", b"journal", b"exact")
FRONTIER_DATABASES = (b"slots", b"queue")
BLOBS = b"blobs"
PAGE_COUNTS = b"page_counts"
DELAYS = b"delays"
COOKIES = b"cookies"
LATER = b"later"
FAILURES = b"failures"
HISTORY = b"history"
OPTIONAL_DATABASES = (
    *FRONTIER_DATABASES, BLOBS, PAGE_COUNTS, DELAYS, COOKIES, LATER, FAILURES, HISTORY
)  # fmt: skip
"""Made when they are first needed."""

PAGE_KEY = Struct(">HI")
JOURNAL_KEY = Struct(">Q")
JOURNAL_HEAD = Struct("<HQ")
SLOT_KEY = Struct(">I")
SLOT_HEAD = Struct("<Q")
COUNT = Struct("<Q")
DELAY = Struct("<Bd")
HISTORY_KEY = Struct(">QQ")
COOKIE_HEAD = b"C"
FAILURE_HEAD = b"F"
HISTORY_HEAD = b"H"
"""No payload of a request begins with these."""
LATER_KEY = Struct(">QQ")
INVERTED = bytes(range(255, -1, -1))

_LATER_HEAD = Struct("<cBqI")
_LATER_MARK = b"L"
"""No payload of a request begins with it, and no cookie."""
_START = 1
_PRIORITY_LIMIT = (1 << 63) - 1

LEDGER = "ledger"
MODULUS = 1 << 64
_LOW_64 = MODULUS - 1
_LOW_32 = (1 << 32) - 1

Totals = dict[bytes, list[int]]
"""Of each database: number of records, and their sums added up."""


class Ledger(NamedTuple):
    """Contents of the store, as counted by the last transaction."""

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


class StoredLater(NamedTuple):
    """A request that is scheduled for later, as it is stored."""

    key: bytes
    slot: str
    priority: int
    start: bool
    payload: bytes
    checksum: int

    @property
    def due(self) -> float:
        """Unix time before which it waits, in seconds."""
        return float(LATER_KEY.unpack(self.key)[0]) / 1e6

    @property
    def sequence(self) -> int:
        """Its number among all requests of the frontier."""
        return int(LATER_KEY.unpack(self.key)[1])


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


def later_key(due: float, sequence: int) -> bytes:
    """Return the key in ``later`` of a request that waits until a Unix time.

    Rounded up to the next microsecond: never early. Before 1970 counts as 1970.
    """
    return LATER_KEY.pack(max(0, math.ceil(due * 1e6)), sequence)


def stored_priority(priority: int) -> int:
    """Return a priority, or the nearest within 64 bits."""
    return max(-_PRIORITY_LIMIT, min(priority, _PRIORITY_LIMIT))


def later_record(
    key: bytes, slot: str, priority: int, payload: bytes, *, start: bool
) -> bytes:
    """Return the value in ``later`` of a request."""
    name = slot.encode(errors="surrogatepass")
    kept = stored_priority(priority)
    head = _LATER_HEAD.pack(_LATER_MARK, _START * start, kept, len(name))
    value = head + name + payload
    return checksum(key, value) + value


def read_later(key: bytes, value: bytes) -> StoredLater:
    """Read a record of ``later``; its sum must be right."""
    at = CHECKSUM_BYTES
    _, flags, priority, size = _LATER_HEAD.unpack_from(value, at)
    at += _LATER_HEAD.size
    name = value[at : at + size].decode("utf-8", "surrogatepass")
    payload = value[at + size :]
    return StoredLater(
        key, name, priority, bool(flags & _START), payload, sum_of(value)
    )


def slot_prefix(slot: int) -> bytes:
    """Encode the number of a slot: it sorts, and is no prefix of another number."""
    if slot < 1 << 6:
        return bytes((slot,))
    if slot < 1 << 14:
        return (1 << 14 | slot).to_bytes(2, "big")
    if slot < 1 << 30:
        return (2 << 30 | slot).to_bytes(4, "big")
    return (3 << 62 | slot).to_bytes(8, "big")


def checksum(key: bytes, value: Buffer) -> bytes:
    """Return eight bytes that depend on the value and on its key."""
    seed = mmh3_x64_128_uintdigest(key) & _LOW_32
    return mmh3_x64_128_digest(value, seed)[:CHECKSUM_BYTES]


def blob_sum(name: str, value: bytes) -> str:
    """Return the checksum of a named value, in hexadecimal."""
    return checksum(name.encode(), value).hex()


def name_digest(slot: str) -> bytes:
    """Return a digest of a slot's name, which may be longer than a key."""
    name = slot.encode(errors="surrogatepass")
    return hashlib.blake2b(name, digest_size=DIGEST_BYTES).digest()


def page_value(layer: int, page: int, bits: memoryview) -> bytes:
    """Return the value of a page: its checksum, then the bits' bytes."""
    bits = bits[:PAGE_BYTES]
    return b"".join((checksum(PAGE_KEY.pack(layer, page), bits), bits))


def total_of(
    database: bytes, keys: list[bytes], values: list[bytes]
) -> tuple[int, list[int]]:
    """Return the total of the records' sums, and the numbers of damaged records."""
    if database == b"exact":
        wrong = [
            number
            for number, (key, value) in enumerate(zip(keys, values, strict=True))
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
    # LMDB has no empty keys. The sum of an empty key and value is 0, as in a page of
    # zeros.
    if stored != right or not all(keys):
        wrong = [
            at for at, sums in enumerate(stored) if sums != right[at] or not keys[at]
        ]
    return sum(stored), wrong


def slot_of(key: bytes) -> tuple[int, bytes]:
    """Return slot and rank of a key in ``queue``."""
    size = 1 << (key[0] >> 6)
    number = int.from_bytes(key[:size], "big") & (1 << 8 * size - 2) - 1
    return number, key[size:].translate(INVERTED)


def describe(database: bytes, key: bytes) -> str:
    """Describe a key, for a message."""
    if database in (b"meta", BLOBS):
        return f"record {key.decode(errors='replace')!r}"
    if database == b"pages" and len(key) == PAGE_KEY.size:
        layer, page = PAGE_KEY.unpack(key)
        return f"page {page} of layer {layer}"
    if database == b"journal" and len(key) == JOURNAL_KEY.size:
        return f"journal entry {JOURNAL_KEY.unpack(key)[0]}"
    if database == b"slots" and len(key) == SLOT_KEY.size:
        return f"slot {SLOT_KEY.unpack(key)[0]}"
    kind = {
        b"queue": "request",
        b"exact": "exact key",
        LATER: "request for later",
        COOKIES: "cookie",
        FAILURES: "failure",
        HISTORY: "point of the history",
    }.get(database)
    return f"{kind or database.decode(errors='replace')} {key.hex()}"


def requests_in_slot(value: Buffer) -> int:
    """Return the number of stored requests in the record of a slot."""
    return int(SLOT_HEAD.unpack_from(value, CHECKSUM_BYTES)[0])


def read_record(value: bytes) -> dict[str, Any] | None:
    """Read a value of ``meta``; None if it belongs to another database."""
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


def damaged(file: str, what: str) -> StoreDamagedError:
    """Return the error that names the file, the damage and the remedy."""
    store = Path(file).parent
    return StoreDamagedError(
        f"{file}: {what}; {last_backup(store)}; `bloomdupe verify {store}` lists the"
        " damage"
    )


def last_backup(store: Path | str) -> str:
    """Return the remedy for a damaged store."""
    return f"move {store} away and put a copy of the last backup in its place"
