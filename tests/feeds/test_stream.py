"""The output of a worker: lines of the stream of its crawl."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bloomdupe.feeds.exporter import MOST_BYTES, MOST_ITEMS, StreamFeeds


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
    exporter = SimpleNamespace(feeds={}, take_part=lambda *_: None)
    crawler: Any = SimpleNamespace(get_extension=lambda _: exporter)
    feeds = StreamFeeds(crawler, lambda *_: None, lambda _: None)
    part = feeds.prepare([(0, bytes(size))] * items)
    assert [len(line) // 2 for line in part.output] == lines
