"""Golden vectors: every existing store depends on these hashes."""

from __future__ import annotations

import hashlib

import mmh3
import pytest

from bloomdupe.errors import KeyTypeError
from bloomdupe.filter import hashing

SECRET = bytes(range(16))
KEY = b"https://example.com/"
GOLDEN_DIGEST = "244b28bd9238159e745d06998e04f7e8"
GOLDEN_PAGE_HASH = 1256715002
GOLDEN_POSITIONS = [
    19236,
    48424,
    14482,
    40469,
    23924,
    39174,
    1166,
    59639,
    48200,
    8652,
    45780,
    56143,
    61279,
    53929,
    33520,
    9513,
    42541,
    28179,
    21653,
    40722,
    36596,
    6235,
    15372,
    62871,
    52101,
    38577,
    7973,
    5952,
]


def test_golden_digest() -> None:
    digest = hashing.digest(SECRET + KEY)
    assert digest.hex() == GOLDEN_DIGEST
    assert hashing.page_hash(digest) == GOLDEN_PAGE_HASH


@pytest.mark.parametrize("hashes", [1, 7, 8, 9, 14, 16, 17, 24, 28])
def test_golden_positions(hashes: int) -> None:
    digest = bytes.fromhex(GOLDEN_DIGEST)
    assert hashing.positions(digest, hashes) == GOLDEN_POSITIONS[:hashes]


def test_positions_are_the_fields_of_a_chain_of_digests() -> None:
    # An independent computation, by another function of the hash library.
    first = mmh3.hash_bytes(SECRET + KEY, seed=0, x64arch=True)
    second = mmh3.hash_bytes(first, seed=0, x64arch=True)
    chain = first + second
    fields = [chain[i] + 256 * chain[i + 1] for i in range(0, 32, 2)]
    assert hashing.positions(first, 16) == fields


@pytest.mark.parametrize("hashes", [1, 8, 9, 16, 17, 28])
def test_the_chain_holds_all_positions(hashes: int) -> None:
    whole = hashing.chain(bytes.fromhex(GOLDEN_DIGEST), hashes)
    fields = [whole[i] + 256 * whole[i + 1] for i in range(0, len(whole), 2)]
    assert len(fields) == -(-hashes // 8) * 8
    assert fields[:hashes] == GOLDEN_POSITIONS[:hashes]


def test_the_exact_identity_is_keyed_blake2b() -> None:
    expected = hashlib.blake2b(KEY, digest_size=16, key=SECRET).digest()
    assert hashing.exact_id(SECRET, KEY) == expected


def test_each_secret_sends_a_key_elsewhere() -> None:
    places = {hashing.digest(hashing.new_secret() + KEY) for _ in range(100)}
    assert len(places) == 100


def test_text_stands_for_its_utf8_bytes() -> None:
    assert hashing.as_bytes("café") == "café".encode()
    assert hashing.as_bytes("\ud800") == b"\xed\xa0\x80"
    of_a_subclass = hashing.as_bytes(type("Key", (bytes,), {})(b"a"))
    assert type(of_a_subclass) is bytes
    assert of_a_subclass == b"a"


@pytest.mark.parametrize(
    "key", [None, 1, 1.5, ["a"], bytearray(b"a"), memoryview(b"a"), object()]
)
def test_other_keys_are_refused(key: object) -> None:
    with pytest.raises(KeyTypeError, match=f"bytes or str, not {type(key).__name__}"):
        hashing.as_bytes(key)
