"""Output: the lines that verbs print, made printable.

Each line is made printable here, so no verb can forget it. If a reader stops, as
``head`` does, the remaining lines are discarded, and that is no error.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
from typing import TYPE_CHECKING, TextIO

from bloomdupe.errors import BloomDupeError
from bloomdupe.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


def say_all(lines: Iterable[str]) -> None:
    """Print lines, as :func:`written` does."""
    with written() as file:
        file.writelines(f"{printable(line)}\n" for line in lines)


@contextlib.contextmanager
def written() -> Iterator[TextIO]:
    """Write what is printed meanwhile, as long as there is a reader.

    Raises :class:`BloomDupeError` if it cannot be written.
    """
    # None: it was closed before the program began.
    file = sys.stdout or io.StringIO()
    if isinstance(file, io.TextIOWrapper):
        file.reconfigure(errors="backslashreplace")
    try:
        try:
            yield file
        finally:
            file.flush()
    except BloomDupeError:  # of reading the lines
        raise
    except OSError as error:
        # Otherwise Python tries again when it ends, and complains.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        if not isinstance(error, BrokenPipeError):
            raise BloomDupeError(
                f"cannot write to standard output: {error.strerror}"
            ) from error


def warn(line: str) -> None:
    """Print a line to standard error."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(printable(line), file=sys.stderr, flush=True)


def report_progress() -> None:
    """Print how far a long task is, such as the check of a store, in a terminal."""
    logger = logging.getLogger("bloomdupe.store.progress")  # its lines are printable
    if sys.stderr is not None and sys.stderr.isatty() and not logger.handlers:
        logger.addHandler(logging.StreamHandler())
        logger.setLevel(logging.INFO)


def table(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a line for each row, in columns as wide as they need.

    The first two columns are words; all others are figures, aligned to the right.
    """
    rows = [*rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if number < 2 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
