"""Table: names and values in two columns, and times among them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["slot_name", "table", "when"]


def table(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Return a line for each name and value, the values below each other."""
    rows = list(rows)
    width = max(len(name) for name, _ in rows)
    return [f"{name:<{width}}  {value}" for name, value in rows]


def slot_name(name: str) -> str:
    """Return a slot's name; items of ``start()`` have no slot."""
    return name or "(no slot)"


def when(moment: float) -> str:
    """Return a Unix time in readable form."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(moment))
