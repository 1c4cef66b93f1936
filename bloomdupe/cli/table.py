"""Table: rows in columns."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FIRST = 200
"""Rows that decide on the widths of columns."""


def table(rows: Iterable[Sequence[str]], left: int | None = None) -> Iterator[str]:
    """Yield a line for each row, in columns as wide as the first rows need.

    Columns from number ``left`` on are figures, aligned to the right. Nothing is waited
    for longer than for the first rows, and memory does not grow.
    """
    rows = iter(rows)
    first = list(islice(rows, FIRST))
    widths = [max(map(len, column)) for column in zip(*first, strict=True)]
    for row in chain(first, rows):
        cells = [
            cell.ljust(width) if left is None or number < left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
