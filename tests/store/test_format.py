"""Each record tells by its form of which database it is; and in which words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloomdupe.crawl.changes import taking_up
from bloomdupe.crawl.engines import checkpoint
from bloomdupe.filter import contents
from bloomdupe.frontier import frontier
from bloomdupe.store import format as store_format
from bloomdupe.store.format import (
    BLOBS,
    COOKIES,
    COUNT,
    DELAY,
    DELAYS,
    FAILURES,
    HISTORY,
    HISTORY_KEY,
    JOURNAL_HEAD,
    JOURNAL_KEY,
    LATER,
    LEDGER,
    META,
    OPTIONAL_DATABASES,
    PAGE_COUNTS,
    PAGE_KEY,
    SLOT_HEAD,
    SLOT_KEY,
    checksum,
    database_of,
    describe,
    json_of,
    later_key,
    later_record,
    name_digest,
    page_value,
    read_record,
    request_key,
    request_record,
    slot_of,
)

RANK = b"\x10" + bytes(6)
DIGEST = name_digest("host")
RECORDS = {
    b"pages": (PAGE_KEY.pack(1, 2), bytes(store_format.PAGE_BYTES)),
    b"journal": (JOURNAL_KEY.pack(7), JOURNAL_HEAD.pack(0, 3) + bytes(range(16))),
    b"slots": (SLOT_KEY.pack(5), SLOT_HEAD.pack(9) + b"host"),
    b"queue": (request_key(5, RANK), b"\x91\xa0"),
    BLOBS: (b"feed0", b"{}\n"),
    PAGE_COUNTS: (DIGEST, COUNT.pack(3)),
    DELAYS: (DIGEST, DELAY.pack(0, 0.5)),
    COOKIES: (DIGEST, b"C\x90"),
    LATER: (later_key(1.0, 2), later_record(b"", "host", 0, b"", start=False)[8:]),
    FAILURES: (DIGEST, b"F\x90"),
    HISTORY: (HISTORY_KEY.pack(1, 2), b"H{}"),
}


def summed(key: bytes, value: bytes) -> bytes:
    return checksum(key, value) + value


def test_every_database_has_an_example() -> None:
    assert {*RECORDS, b"meta", b"exact"} == {
        *store_format.DATABASES,
        *OPTIONAL_DATABASES,
    }


@pytest.mark.parametrize("database", RECORDS)
def test_a_record_is_known_by_its_form(database: bytes) -> None:
    key, value = RECORDS[database]
    assert database_of(key, summed(key, value)) == database
    # Not with a wrong sum.
    assert database_of(key, summed(key + b"x", value)) is None


def test_a_record_of_meta_is_known_by_its_name() -> None:
    rooms = [checkpoint, contents, frontier, taking_up]
    names = {
        b"store",
        COOKIES,
        LEDGER.encode(),
        *(room.RECORD.encode() for room in rooms),
    }
    assert names == META
    for name in names:
        assert database_of(name, summed(name, json_of({"a": 1}))) == b"meta"


def test_an_identity_has_no_value() -> None:
    assert database_of(DIGEST, b"") == b"exact"
    assert database_of(DIGEST[1:], b"") is None


@pytest.mark.parametrize(
    ("key", "value"), [(b"", b"x"), (b"a b", b"x"), (b"\0\0\0", b"{}")]
)
def test_any_other_record_has_no_database(key: bytes, value: bytes) -> None:
    assert database_of(key, summed(key, value)) is None


@pytest.mark.parametrize(
    ("database", "key", "words"),
    [
        (b"meta", b"filter", "record 'filter'"),
        (b"pages", PAGE_KEY.pack(1, 2), "page 2 of layer 1"),
        (b"pages", b"\1", "pages 01"),
        (b"journal", JOURNAL_KEY.pack(7), "journal entry 7"),
        (b"journal", b"\1", "journal 01"),
        (b"slots", SLOT_KEY.pack(5), "slot 5"),
        (b"slots", b"\1", "slots 01"),
        (b"queue", b"\1\2", "request 0102"),
        (b"exact", b"\1", "exact key 01"),
        (LATER, b"\1", "request for later 01"),
        (COOKIES, b"\1", "cookie 01"),
        (FAILURES, b"\1", "failure 01"),
        (HISTORY, b"\1", "point of the history 01"),
        (DELAYS, b"\1", "delays 01"),
        (BLOBS, b"c0", "record 'c0'"),
    ],
)
def test_a_key_is_described(database: bytes, key: bytes, words: str) -> None:
    assert describe(database, key) == words


@pytest.mark.parametrize("value", [b"", b"{", b"\xff", b"[1]", b"1"])
def test_only_an_object_is_a_record(value: bytes) -> None:
    assert read_record(bytes(8) + value) is None
    assert read_record(bytes(8) + b'{"a": 1}') == {"a": 1}


@given(st.integers(0, 2**62 - 1) | st.integers(0, 2**15), st.binary(min_size=7))
def test_slot_and_rank_are_read_from_a_key(slot: int, rank: bytes) -> None:
    assert slot_of(request_key(slot, rank)) == (slot, rank)


def test_a_page_and_a_request_have_their_sums() -> None:
    key = PAGE_KEY.pack(1, 2)
    bits = bytes(store_format.PAGE_BYTES - 1) + b"\1"
    assert page_value(1, 2, memoryview(bits + b"more")) == summed(key, bits)
    key, value = request_record(5, RANK, b"payload")
    assert (key, value) == (request_key(5, RANK), summed(key, b"payload"))
