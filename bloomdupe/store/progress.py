"""Progress: says in the log how far a long task of a store is.

A crawl shows it in its log, and a verb on standard error.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Progress", "told"]

logger = logger_of(__name__)

PATIENCE = 1.5
"""Seconds between two lines, and before the first line."""

Thing = TypeVar("Thing")


class Progress:
    """Logs the progress of a task that takes longer than ``PATIENCE``.

    At its end there is nothing left to say, so a task of one step is never logged.
    """

    def __init__(self, task: str, total: int, unit: str, scale: int = 1) -> None:
        """``scale`` is the number of things that count as one ``unit``."""
        self._task = task
        self._total = total
        self._unit = unit
        self._scale = scale
        self._done = 0
        self._due = monotonic() + PATIENCE

    def passed(self, number: int) -> None:
        """Count so many more things."""
        self._done += number
        if self._done < self._total and monotonic() >= self._due:
            self._due = monotonic() + PATIENCE
            logger.info(
                "%(task)s: %(done)s of %(total)s %(unit)s",
                {
                    "task": self._task,
                    "done": f"{self._done // self._scale:,}",
                    "total": f"{self._total // self._scale:,}",
                    "unit": self._unit,
                },
            )


def told(things: Iterable[Thing], task: str, total: int, unit: str) -> Iterator[Thing]:
    """Yield things, and log the progress of the task that goes through them."""
    progress = Progress(task, total, unit)
    for thing in things:
        yield thing
        progress.passed(1)
