"""Hashing: from a key to a block and to k bit positions in it.

Frozen by the vectors of its test: a change here makes every existing store unreadable.

1. ``digest = murmur3_x64_128(secret + key)``, 16 bytes. The secret is drawn at
   random for each store, so no stranger can compute which bits a key sets.
2. ``block = murmur3_32(digest) mod blocks``.
3. Positions are the digest's eight 16-bit little-endian fields. If k > 8, eight
   more come from ``murmur3_x64_128(digest)``, and so on. They are independent:
   double hashing within a block of this size costs 50 % at p = 1e-4 and 27 times p
   at 1e-6.

Everything follows from the 16-byte digest, so a journal need not keep more of a key.
Murmur is fast but not collision-resistant against chosen raw input, whichever secret is
used: keys chosen by a stranger should be hashed cryptographically first, as Scrapy's
fingerprints (SHA-1) are.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from struct import unpack_from
from typing import TYPE_CHECKING

from mmh3 import mmh3_32_uintdigest, mmh3_x64_128_digest

from bloomdupe.errors import KeyTypeError

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "murmur3_x64_128"
DIGEST_BYTES = 16
SECRET_BYTES = 16
FIELDS = 8

digest: Callable[[bytes], bytes] = mmh3_x64_128_digest
"""``digest(secret + key)``: 16 bytes; also the next digest of a digest."""

block_hash: Callable[[bytes], int] = mmh3_32_uintdigest
"""``block_hash(digest)``: 32 bits, independent of the positions."""


def as_bytes(key: object) -> bytes:
    """Return the bytes of a key that is not exactly ``bytes``.

    Raises :class:`~bloomdupe.errors.KeyTypeError` for anything but ``bytes`` and
    ``str``. Text stands for its UTF-8 bytes; lone surrogates are allowed.
    """
    if isinstance(key, str):
        return key.encode("utf-8", "surrogatepass")
    if isinstance(key, bytes):
        return bytes(key)
    raise KeyTypeError(
        f"a key must be bytes or str, not {type(key).__name__}: {key!r:.80}"
    )


@lru_cache
def further_digests(hashes: int) -> Callable[[bytes], bytes]:
    """Return the function that gives the digests after a digest, at least one.

    The fields of all of them are the k positions, and fields that are not used. Up to
    k = 16 it is a C function.
    """
    rounds = -(-hashes // FIELDS) - 1
    if rounds <= 1:
        return digest

    def further(first: bytes) -> bytes:
        digests = [first]
        for _ in range(rounds):
            digests.append(digest(digests[-1]))
        return b"".join(digests[1:])

    return further


def positions(first: bytes, hashes: int) -> list[int]:
    """Return all k positions of a digest, each in ``range(65536)``."""
    return [*unpack_from(f"<{hashes}H", first + further_digests(hashes)(first))]


def exact_id(secret: bytes, key: bytes) -> bytes:
    """Return the 16-byte identity of a key in the exact part of a filter.

    Keyed BLAKE2b: unlike Murmur it has no known collisions, so two keys with one
    identity need not be considered.
    """
    return hashlib.blake2b(key, digest_size=16, key=secret).digest()
