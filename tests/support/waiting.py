"""Waiting for an event, never for an amount of time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

DEADLINE = 300.0
"""Seconds; only a broken test gets there, on a machine that is as slow as can be."""
PAUSE = 0.005
"""Seconds between two looks."""


def until(condition: Callable[[], object], deadline: float = DEADLINE) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + deadline
    while not condition():
        assert time.monotonic() < end, f"still not after {deadline} s"
        time.sleep(PAUSE)
