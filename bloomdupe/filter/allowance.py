"""Allowance: how many bytes of memory the pages of a filter may take."""

from __future__ import annotations

import os
from pathlib import Path

from bloomdupe.errors import SettingError

__all__ = ["GROUP", "check_memory", "default_memory", "machine_memory"]

GROUP = Path("/sys/fs/cgroup/memory.max")

SHARE = 4
"""By default, the pages of a filter take at most one byte in so many."""


def machine_memory() -> int:
    """Return the bytes of memory that this machine, or the control group, has.

    A control group that cannot be read, or is not there, sets no limit.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        group = GROUP.read_text("ascii").strip()
    except OSError:
        return machine
    return machine if group == "max" else min(machine, int(group))


def default_memory() -> int:
    """Return how many bytes the pages of a filter take at most unless told."""
    return machine_memory() // SHARE


def check_memory(value: object, name: str = "memory") -> int | None:
    """Return a number of bytes (None: the default), or raise :class:`SettingError`."""
    if value is None:
        return None
    try:
        number = float(value) if not isinstance(value, bool) else -1.0  # type: ignore[arg-type]
        if number >= 0 and number.is_integer():
            return int(number)
    except (TypeError, ValueError, OverflowError):
        pass
    raise SettingError(
        f"{name} = {value!r}: expected a whole number of bytes, such as 300_000_000, or"
        " 0 to keep no page in memory"
    )
