"""Table: names and values, or rows of figures, in columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["columns", "table"]


def table(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Return a line for each name and value, the values below each other."""
    rows = list(rows)
    width = max(len(name) for name, _ in rows)
    return [f"{name:<{width}}  {value}" for name, value in rows]


def columns(rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """Return a line for each row; the first ``left`` columns are aligned to the left.

    The other columns are figures, aligned to the right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if number < left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
