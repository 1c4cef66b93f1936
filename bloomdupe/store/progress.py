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


def reported(
    things: Iterable[Thing],
    task: str,
    total: float,
    unit: str,
    size: Callable[[Thing], float] = lambda _: 1,
) -> Iterator[Thing]:
    """Yield things, and log the progress of the task that goes through them.

    ``size`` returns how many units a thing counts for. A line is logged if there was
    none for ``PATIENCE``, and none at the end, where nothing is left to say.
    """
    done, due = 0.0, monotonic() + PATIENCE
    for thing in things:
        yield thing
        done += size(thing)
        now = monotonic()
        if done < total and now >= due:
            due = now + PATIENCE
            logger.info(
                "%(task)s: %(done)s of %(total)s %(unit)s",
                {
                    "task": task,
                    "done": f"{int(done):,}",
                    "total": f"{int(total):,}",
                    "unit": unit,
                },
            )
