"""Progress: says in the log how far a long task of a store is.

A crawl shows it in its log, and a verb in a terminal.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

logger = logger_of(__name__)

PATIENCE = 1.0
"""Seconds between two lines, and before the first line."""

Thing = TypeVar("Thing")


class Progress:
    """Logs the progress of a task, if no line was logged for ``PATIENCE``.

    At the end of a task there is nothing left to say, so a task of one step is never
    logged.
    """

    def __init__(self, task: str, total: int | None, unit: str, scale: int = 1) -> None:
        """``scale`` is the number of things that count as one ``unit``.

        ``total`` is None if it is unknown.
        """
        self._task = task
        self._total = total
        self._unit = unit
        self._scale = scale
        self._done = 0
        self._due = monotonic() + PATIENCE

    def passed(self, number: int) -> None:
        """Count so many more things."""
        self._done += number
        now = monotonic()
        if self._done != self._total and now >= self._due:
            self._due = now + PATIENCE
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


def reported(
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
