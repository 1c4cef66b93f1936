"""Allowance: how many bytes of memory the pages of a filter may take."""

from __future__ import annotations

from bloomdupe.errors import SettingError
from bloomdupe.store.platform import memory_of_group, size_of_memory

SHARE = 4
"""By default, the pages of a filter take at most one byte in so many."""
MOST_BYTES = 1e18


def machine_memory() -> int:
    """Return the bytes of memory that this machine, or the control group, has."""
    machine = size_of_memory()
    group = memory_of_group()
    return machine if group is None else min(machine, group)


def default_memory() -> int:
    """Return how many bytes the pages of a filter take at most unless told."""
    return machine_memory() // SHARE


def check_memory(value: object, name: str = "memory") -> int | None:
    """Return a number of bytes (None: the default), or raise :class:`SettingError`."""
    if value is None:
        return None
    try:
        number = float(value) if not isinstance(value, bool) else -1.0  # type: ignore[arg-type]
        if 0 <= number <= MOST_BYTES and number.is_integer():
            return int(number)
    except (TypeError, ValueError, OverflowError):
        pass
    raise SettingError.of(
        name,
        value,
        "a whole number of bytes, such as 300_000_000, or 0 to keep no page in memory",
    )
