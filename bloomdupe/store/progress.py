"""Progress: says in the log how far a long task of a store is.

A crawl shows it in its log, and a verb on standard error.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, ClassVar, TypeVar

from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

logger = logger_of(__name__)

PATIENCE = 1.0
"""Seconds between two lines, and before the first line."""

Thing = TypeVar("Thing")


class Progress:
    """Logs the progress of a task, if no line was logged for ``PATIENCE``.

    Tasks that follow each other at once share that time, so that several short tasks
    are not silent for long. At the end of a task there is nothing left to say, so a
    task of one step is never logged.
    """

    _seen: ClassVar[float] = float("-inf")
    """When any task was last at work."""
    _due: ClassVar[float] = 0.0

    def __init__(self, task: str, total: int, unit: str, scale: int = 1) -> None:
        """``scale`` is the number of things that count as one ``unit``."""
        self._task = task
        self._total = total
        self._unit = unit
        self._scale = scale
        self._done = 0
        now = monotonic()
        if now > Progress._seen + PATIENCE:
            Progress._due = now + PATIENCE
        Progress._seen = now

    def passed(self, number: int) -> None:
        """Count so many more things."""
        self._done += number
        Progress._seen = now = monotonic()
        if self._done < self._total and now >= Progress._due:
            Progress._due = now + PATIENCE
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


def ignored(_: int) -> None:
    """Ignore the progress."""
