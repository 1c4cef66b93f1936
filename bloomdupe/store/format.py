"""Format: the bytes of a store, and every kind of record in it.

Format 5. ``data.mdb`` has the named databases of LMDB in the table below, which are
called tables. A :class:`bloomdupe.store.store.Part` is written to them, and
:class:`bloomdupe.store.snapshot.Snapshot` reads them.

``sum`` is the first 8 bytes of murmur3_x64_128 of the rest of the value. Its seed is
made of the first four bytes (little-endian) of murmur3_x64_128 of the key, and of the
same four bytes of the table's name. So a value under a wrong key, or in a wrong table,
is detected, too.

=========== =============================== ==================================
table       key                             value
=========== =============================== ==================================
meta        ``store``                       sum + JSON: magic, format,
                                            identity of the job, and the
                                            parameters that never change (see
                                            :mod:`bloomdupe.filter.parameters`)
meta        ``filter``                      sum + JSON: state of the filter
                                            (:class:`bloomdupe.BloomFilter`)
blocks      layer u16, block u32 (big-      sum + 8,168 bytes: bit i is bit
            endian)                         ``i & 7`` of byte ``i >> 3``; an
                                            absent block is all zeros
journal     sequence u64 (big-endian):      sum + layer, where the sweep stood
            consecutive                     then, digests of 16 bytes
exact       16-byte identity of a key       sum
meta        ``frontier``                    sum + JSON: state of the frontier
                                            (:mod:`bloomdupe.frontier.partition`)
slots       slot u32 (big-endian); of a     sum + requests in ``queue``, name, state
            slot without requests 0xff,     (:mod:`bloomdupe.frontier.slot_state`)
            then a digest of its name
queue       slot u32 (big-endian), rank     sum + payload (see
            (see                            :mod:`bloomdupe.requests.serializer`)
            :mod:`bloomdupe.frontier.slot_queue`)
            inverted: the slot's last key
            goes first
queue       :data:`DELAYED`, then           sum + name of the slot, priority,
            inverted: Unix time before      whether it is a start request, payload
            which the request waits,        (as of the others)
            milliseconds u48; sequence u48
meta        ``crawl``                       sum + JSON: items, totals
                                            (:mod:`bloomdupe.crawl.engines.checkpoint`)
blobs       name                            sum + what the spider remembers
                                            (:mod:`bloomdupe.crawl.state.memory`)
cookies     digest of jar, domain, path     sum + the cookie, a secret
            and name                        (:mod:`bloomdupe.crawl.state.cookies`)
failures    digest of the request's         sum + the failure
            fingerprint                     (:mod:`bloomdupe.crawl.state.failures`)
history     tier u8, number u64 (big-       sum + how the crawl stood then
            endian)                         (:mod:`bloomdupe.crawl.progress.history`)
meta        ``ledger``                      sum + JSON: ``transaction``, the
                                            number of LMDB's transaction that
                                            wrote it; ``sums`` of the records of
                                            each table added up (modulo 2**64),
                                            this record left out
=========== =============================== ==================================

In ``journal`` and ``slots``, and of a delayed request, a msgpack array follows the sum.
``slots`` counts the delayed requests under the number :data:`DELAYED`, without a name.

Every transaction writes the ledger, so a record that is missing, outdated or exchanged
is detected, and so is a ledger that does not belong to the last transaction.

A block's value is 8,176 bytes, which fills exactly two LMDB overflow pages.
A store of another format is refused.
"""

from __future__ import annotations

import hashlib
import json
import math
from functools import partial
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack  # type: ignore[import-untyped]
from mmh3 import mmh3_x64_128_digest, mmh3_x64_128_uintdigest

from bloomdupe.errors import StoreDamagedError, StoreMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Buffer

MAGIC = "bloomdupe"
FORMAT = 5
BLOCK_BYTES = 8168
"""Size of a block of bits: two LMDB overflow pages (8,176 bytes) less a checksum."""
DIGEST_BYTES = 16
"""Size of a key in the journal, an exact identity, and the digest of a name."""
CHECKSUM_BYTES = 8

META = b"meta"
BLOCKS = b"blocks"
JOURNAL = b"journal"
EXACT = b"exact"
SLOTS = b"slots"
QUEUE = b"queue"
BLOBS = b"blobs"
COOKIES = b"cookies"
FAILURES = b"failures"
HISTORY = b"history"
TABLES = (
    META, BLOCKS, JOURNAL, EXACT, SLOTS, QUEUE, BLOBS, COOKIES, FAILURES, HISTORY,
)  # fmt: skip

BLOCK_KEY = Struct(">HI")
JOURNAL_KEY = Struct(">Q")
SLOT_KEY = Struct(">I")
APART = b"\xff"
"""Begins the key of a slot without requests; no number of a slot is so large."""
DELAYED = 0xFEFFFFFF
"""Number of the delayed requests among the slots: the last number."""
RANK_BYTES = 12
REQUEST_KEY_BYTES = SLOT_KEY.size + RANK_BYTES
INVERTED = bytes(range(255, -1, -1))

_PRIORITY_LIMIT = (1 << 63) - 1

LEDGER = "ledger"
MODULUS = 1 << 64
_LOW_32 = (1 << 32) - 1
_SEEDS = {name: mmh3_x64_128_uintdigest(name) & _LOW_32 for name in TABLES}

Sums = dict[str, int]
"""Of each table: the sums of its records added up."""


class StoredSlot(NamedTuple):
    """A slot of the frontier."""

    number: int
    requests: int
    """Requests in the store."""
    name: str
    state: bytes = b""

    @classmethod
    def read(cls, number: int, value: memoryview) -> StoredSlot:
        """Read a value of ``slots``, without its sum."""
        return cls(number, *unpacked(value))


def request_key(slot: int, rank: bytes) -> bytes:
    """Return the key of a request in ``queue``."""
    # Inverted, because LMDB packs its pages full where keys are appended in order,
    # and most crawls take the newest request first.
    return SLOT_KEY.pack(slot) + rank.translate(INVERTED)


def delayed_rank(due: float, sequence: int) -> bytes:
    """Return the rank of a request that waits until a Unix time.

    Rounded up to the next millisecond: never early. Before 1970 counts as 1970.
    """
    waits = max(0, math.ceil(due * 1e3))
    return waits.to_bytes(6, "big") + sequence.to_bytes(6, "big")


def due_of(rank: bytes) -> float:
    """Return the Unix time until which a delayed request waits."""
    return int.from_bytes(rank[:6], "big") / 1e3


def stored_priority(priority: int) -> int:
    """Return a priority, or the nearest within 64 bits."""
    return max(-_PRIORITY_LIMIT, min(priority, _PRIORITY_LIMIT))


def delayed_value(slot: str, priority: int, payload: bytes, *, start: bool) -> bytes:
    """Return the value of a delayed request."""
    return packed((slot, stored_priority(priority), start, payload))


packed: Callable[[object], bytes]
"""Returns the bytes of a msgpack array."""
packed = msgpack.Packer(unicode_errors="surrogatepass").pack
unpacked = partial(msgpack.unpackb, unicode_errors="surrogatepass")


def successor(prefix: bytes) -> bytes:
    """Return the smallest bytes above all that begin with ``prefix``; none for none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else b""


def checksum(table: bytes, key: bytes, value: Buffer) -> bytes:
    """Return eight bytes that depend on the value, its key and its table."""
    seed = mmh3_x64_128_uintdigest(key) & _LOW_32 ^ _SEEDS[table]
    return mmh3_x64_128_digest(value, seed)[:CHECKSUM_BYTES]


def slot_record(slot: StoredSlot) -> tuple[bytes, bytes | None]:
    """Return key and value of a slot; no value if it has no requests."""
    key = SLOT_KEY.pack(slot.number)
    return key, packed(slot[1:]) if slot.requests else None


def slot_apart(name: str, state: bytes = b"") -> tuple[bytes, bytes | None]:
    """Return key and value of a slot without requests; no value without a state.

    Its name may be longer than a key.
    """
    encoded = name.encode(errors="surrogatepass")
    key = APART + hashlib.blake2b(encoded, digest_size=DIGEST_BYTES).digest()
    return key, packed((0, name, state)) if state else None


def sum_in(table: bytes, key: bytes, value: bytes) -> int | None:
    """Return the sum in a record as a number; None if the record is damaged."""
    # LMDB has no empty keys. The sum of an empty key and value is 0, as in a page of
    # zeros.
    right = key and value[:CHECKSUM_BYTES] == checksum(
        table, key, value[CHECKSUM_BYTES:]
    )
    return sum_of(value) if right else None


def describe(table: bytes, key: bytes) -> str:
    """Describe a record, for a message."""
    return f"record {key!r} of {table.decode()}"


def meta_records(records: dict[str, dict[str, Any]]) -> dict[bytes, bytes]:
    """Return the changes of ``meta`` that write records of numbers and texts."""
    return {
        name.encode(): json.dumps(record, separators=(",", ":")).encode()
        for name, record in records.items()
    }


def sum_of(value: Buffer) -> int:
    """Return the sum at the head of a value, as a number."""
    return int.from_bytes(memoryview(value)[:CHECKSUM_BYTES], "little")


def expect_format(shown: Path | str, header: Mapping[str, Any]) -> None:
    """Refuse a store of another format."""
    found = header.get("format")
    if str(found) != str(FORMAT):
        raise StoreMismatchError(
            f"{shown} has format {found}, this version of bloomdupe reads"
            f" format {FORMAT}; use the version that wrote it"
            f" ({header.get('written_by', 'unknown')})"
        )


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
