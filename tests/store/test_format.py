"""Keys, values, and the words for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloomdupe.store import format as store_format
from bloomdupe.store.format import (
    BLOBS,
    COOKIES,
    FAILURES,
    HISTORY,
    JOURNAL_KEY,
    LATER,
    PAGE_KEY,
    SLOT_KEY,
    checksum,
    describe,
    page_value,
    read_record,
    request_key,
    request_record,
    slot_of,
)

RANK = b"\x10" + bytes(6)


def summed(table: bytes, key: bytes, value: bytes) -> bytes:
    return checksum(table, key, value) + value


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


def test_a_value_in_another_table_has_another_sum() -> None:
    sums = {checksum(table, b"key", b"value") for table in store_format.TABLES}
    assert len(sums) == len(store_format.TABLES)


def test_a_page_and_a_request_have_their_sums() -> None:
    key = PAGE_KEY.pack(1, 2)
    bits = bytes(store_format.PAGE_BYTES - 1) + b"\1"
    assert page_value(1, 2, memoryview(bits + b"more")) == summed(b"pages", key, bits)
    key, value = request_record(5, RANK, b"payload")
    assert (key, value) == (request_key(5, RANK), summed(b"queue", key, b"payload"))
