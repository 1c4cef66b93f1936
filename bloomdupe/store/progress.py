"""Progress: says in the log how far a long task of a store is.

A crawl shows it in its log, and a verb in a terminal.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, ClassVar, TypeVar

from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

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

    def __init__(self, task: str, total: int | None, unit: str, scale: int = 1) -> None:
        """``scale`` is the number of things that count as one ``unit``.

        ``total`` is None if it is unknown.
        """
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
        if self._done != self._total and now >= Progress._due:
            Progress._due = now + PATIENCE
            of = "" if self._total is None else f" of {self._total // self._scale:,}"
            logger.info(
                "%(task)s: %(done)s%(of)s %(unit)s",
                {
                    "task": self._task,
                    "done": f"{self._done // self._scale:,}",
                    "of": of,
                    "unit": self._unit,
                },
            )


def told(
    things: Iterable[Thing],
    task: str,
    total: int | None,
    unit: str,
    size: Callable[[Thing], int] = lambda _: 1,
) -> Iterator[Thing]:
    """Yield things, and log the progress of the task that goes through them.

    ``size`` returns how many a thing counts for.
    """
    progress = Progress(task, total, unit)
    for thing in things:
        yield thing
        progress.passed(size(thing))
