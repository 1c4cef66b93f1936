"""Keys, values, and the words for them."""

from __future__ import annotations

from bloomdupe.store import format as store_format
from bloomdupe.store.format import (
    PAGE_KEY,
    checksum,
    page_value,
    request_key,
    request_record,
)

RANK = b"\x10" + bytes(6)


def summed(table: bytes, key: bytes, value: bytes) -> bytes:
    return checksum(table, key, value) + value


def test_a_value_in_another_table_has_another_sum() -> None:
    sums = {checksum(table, b"key", b"value") for table in store_format.TABLES}
    assert len(sums) == len(store_format.TABLES)


def test_a_page_and_a_request_have_their_sums() -> None:
    key = PAGE_KEY.pack(1, 2)
    bits = bytes(store_format.PAGE_BYTES - 1) + b"\1"
    assert page_value(1, 2, memoryview(bits + b"more")) == summed(b"pages", key, bits)
    key, value = request_record(5, RANK, b"payload")
    assert (key, value) == (request_key(5, RANK), summed(b"queue", key, b"payload"))
