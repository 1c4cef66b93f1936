"""Golden vectors: every existing store depends on these hashes."""

from __future__ import annotations

import hashlib

import mmh3

from bloomdupe.filter import hashing

SECRET = bytes(range(16))
KEY = b"https://example.com/"
GOLDEN_DIGEST = "244b28bd9238159e745d06998e04f7e8"
GOLDEN_BLOCK_HASH = 1256715002


def test_golden_digest() -> None:
    digest = hashing.digest(SECRET + KEY)
    assert digest.hex() == GOLDEN_DIGEST
    assert hashing.block_hash(digest) == GOLDEN_BLOCK_HASH


def test_positions_are_the_fields_of_a_chain_of_digests() -> None:
    # An independent computation, by another function of the hash library.
    first = mmh3.hash_bytes(SECRET + KEY, seed=0, x64arch=True)
    second = mmh3.hash_bytes(first, seed=0, x64arch=True)
    chain = first + second
    fields = [chain[i] + 256 * chain[i + 1] for i in range(0, 32, 2)]
    assert hashing.positions(first, 16) == fields


def test_the_exact_identity_is_keyed_blake2b() -> None:
    expected = hashlib.blake2b(KEY, digest_size=16, key=SECRET).digest()
    assert hashing.exact_id(SECRET, KEY) == expected


def test_text_stands_for_its_utf8_bytes() -> None:
    assert hashing.as_bytes("café") == "café".encode()
    assert hashing.as_bytes("\ud800") == b"\xed\xa0\x80"
    of_a_subclass = hashing.as_bytes(type("Key", (bytes,), {})(b"a"))
    assert type(of_a_subclass) is bytes
    assert of_a_subclass == b"a"
