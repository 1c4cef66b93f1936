"""The output of a worker: lines of the stream of its crawl."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import pytest

from bloomdupe.feeds.exporter import MOST_BYTES, MOST_ITEMS, _kept, output_of
from bloomdupe.requests.values import unpack


@pytest.mark.parametrize(
    ("items", "size", "lines"),
    [
        (0, 1, []),
        (MOST_ITEMS, 1, [MOST_ITEMS]),
        (2 * MOST_ITEMS + 1, 1, [MOST_ITEMS, MOST_ITEMS, 1]),
        (3, MOST_BYTES // 2, [2, 1]),
        (2, 2 * MOST_BYTES, [1, 1]),
    ],
)
def test_a_line_has_neither_too_many_items_nor_too_many_bytes(
    items: int, size: int, lines: list[int]
) -> None:
    found = output_of([(0, bytes(size))] * items)
    assert [len(line) // 2 for line in found] == lines


@dataclass
class Book:
    title: str
    parts: list[Book]


@pytest.mark.parametrize("module", [__name__, "__main__"])
def test_of_an_item_of_a_script_other_programs_get_the_fields(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Book, "__module__", module)
    book = Book("a", [Book("b", [])])
    fields = module == "__main__"
    assert unpack(_kept(book, elsewhere=True)) == (asdict(book) if fields else book)
