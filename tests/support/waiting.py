"""Waiting for an event, never for an amount of time."""

from __future__ import annotations

import os
import tempfile
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DEADLINE = 300.0
"""Seconds; only a broken test gets there, on a machine that is as slow as can be."""
FIRST, LATER, LONGEST = 0.001, 0.01, 0.1
"""Seconds between two looks: less at first, for what comes at once."""
SHARE = 4
"""A pause is so many times as long as a look: those who are awaited work, too."""


def until(condition: Callable[[], object], deadline: float = DEADLINE) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + deadline
    pause = FIRST
    while True:
        begun = time.monotonic()
        if condition():
            return
        now = time.monotonic()
        assert now < end, f"still not after {deadline} s"
        time.sleep(min(max(pause, SHARE * (now - begun)), LONGEST))  # noqa: TID251 - in the loop that waits
        pause = min(2 * pause, LATER)


def until_later(file: Path) -> None:
    """Wait until a change of a file gets another time than its last change has.

    Linux before 6.13 takes the time of the last tick of its clock, and some file
    systems keep whole seconds. A store can only notice a change that has another time.
    """
    with tempfile.TemporaryFile(dir=file.parent) as probe:

        def later() -> bool:
            os.utime(probe.fileno())
            return os.fstat(probe.fileno()).st_mtime_ns > file.stat().st_ctime_ns

        until(later)
