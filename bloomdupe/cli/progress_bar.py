"""Progress: a bar on standard error for verbs that take long.

It appears after half a second, and only if standard error is a terminal.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from tqdm import tqdm  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

DELAY = 0.5
"""Seconds before a bar appears."""
COLUMNS, ROWS = 80, 24

Thing = TypeVar("Thing")

tqdm.monitor_interval = 0  # no thread that watches bars


def counted(
    things: Iterable[Thing],
    total: int | None,
    unit: str,
    size: Callable[[Thing], int] = lambda _: 1,
) -> Iterator[Thing]:
    """Yield things, and show their number of ``total``, None if that is unknown.

    ``size`` returns how many a thing counts for.
    """
    with _bar(total, f" {unit}") as bar:
        for thing in things:
            yield thing
            bar.update(size(thing))


def bytes_read(
    store: Path, times: int = 1
) -> AbstractContextManager[Callable[[int], None]]:
    """Show how much of a store's data file was read; it is read ``times`` times.

    Within the context, call the given function with numbers of bytes.
    """
    data = store / "data.mdb"
    return bytes_of(times * (data.stat().st_size if data.exists() else 0))


@contextmanager
def bytes_of(total: int | None) -> Iterator[Callable[[int], None]]:
    """Show the number of bytes of ``total``, None if that is unknown."""
    with _bar(total, "B") as bar:

        def passed(size: int) -> None:
            bar.update(size)

        yield passed


class _Bar(tqdm):  # type: ignore[misc]
    """A bar that is drawn seldom, however many lines are printed above it.

    It is never drawn before its delay has passed. A line that is printed takes it away;
    by itself, tqdm would draw it anew below each of them.
    """

    _drawn_at = 0.0
    _is_drawn = False

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        if msg is None:
            now = self._time()
            early = self.delay > 0 and now < self.start_t + self.delay
            if early or now < self._drawn_at + self.mininterval:
                return
            self._drawn_at, self._is_drawn = now, True
        super().display(msg, pos)

    def clear(self, nolock: bool = False) -> None:
        if self._is_drawn:
            self._is_drawn = False
            super().clear(nolock)


def _bar(total: int | None, unit: str) -> Any:  # noqa: ANN401 - tqdm has no types
    known = (
        sys.stderr.isatty() and os.get_terminal_size(sys.stderr.fileno()).columns > 0
    )
    return _Bar(
        total=total,
        unit=unit,
        unit_scale=True,
        # A dumb terminal cannot go back to the beginning of a line.
        disable=True if os.environ.get("TERM") == "dumb" else None,
        delay=DELAY,
        # A terminal that does not know its size says that it has no columns and rows.
        ncols=None if known else COLUMNS,
        nrows=None if known else ROWS,
        dynamic_ncols=known,
        leave=False,
    )
