"""Table: names and values in two columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["slot_name", "table"]


def table(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Return a line for each name and value, the values below each other."""
    rows = list(rows)
    width = max(len(name) for name, _ in rows)
    return [f"{name:<{width}}  {value}" for name, value in rows]


def slot_name(name: str) -> str:
    """Return a slot's name; items of ``start()`` have no slot."""
    return name or "(no slot)"
