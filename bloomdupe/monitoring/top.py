"""Top: a job in a terminal, as lines that are drawn anew."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from contextlib import contextmanager
from shutil import get_terminal_size
from time import monotonic
from typing import TYPE_CHECKING

from bloomdupe.jobs.figures import (
    BAD,
    GOOD,
    WARN,
    Said,
    figures,
    kind_of,
    remedy_of,
)
from bloomdupe.jobs.view import slot_name
from bloomdupe.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bloomdupe.jobs.reader import JobReader
    from bloomdupe.jobs.view import View

INTERVAL = 2.0
"""Seconds between two reads."""
CALM = 10
"""Reading a job takes at most one part in so many of the time."""
NAMES = 13
"""Columns that the names of figures take."""
BOLD, INVERSE = "bold", "inverse"
STYLES = {GOOD: "32", WARN: "33", BAD: "1;31", BOLD: "1", INVERSE: "1;7"}
"""Kinds of texts, as terminals number them."""
BEGIN, END = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"
"""Another screen, without a cursor, on which long lines are cut; and back."""
KEYS = "q quit"


def follow(reader: JobReader) -> View:
    """Show a job until q is pressed; return the last view.

    It is read every two seconds, or less often if reading takes long.
    """
    coloured = not os.environ.get("NO_COLOR")
    with _keys() as pressed:
        while True:
            begun = monotonic()
            view = reader.read()
            lines = [*screen(view, get_terminal_size(), coloured=coloured), KEYS]
            shown = "\x1b[K\r\n".join(lines).encode(sys.stdout.encoding, "replace")
            sys.stdout.buffer.write(b"\x1b[H" + shown + b"\x1b[J")
            sys.stdout.flush()
            pause = max(INTERVAL, CALM * (monotonic() - begun))
            if pressed(begun + pause - monotonic()) in ("q", "Q", "\x1b", ""):
                return view


@contextmanager
def _keys() -> Iterator[Callable[[float], str | None]]:
    """Give a function that waits for a key, and restore the terminal at the end.

    It returns None if no key came in so many seconds, and nothing at the end of keys.
    """
    file = sys.stdin.fileno()

    def pressed(seconds: float) -> str | None:
        if not select.select([file], [], [], max(0.0, seconds))[0]:
            return None
        return os.read(file, 64)[:1].decode("ascii", "replace")

    before = termios.tcgetattr(file)
    tty.setcbreak(file)
    sys.stdout.write(BEGIN)
    sys.stdout.flush()
    try:
        yield pressed
    finally:
        sys.stdout.write(END)
        sys.stdout.flush()
        termios.tcsetattr(file, termios.TCSADRAIN, before)


def screen(
    view: View, terminal: tuple[int, int], *, coloured: bool = False
) -> list[str]:
    """Return the lines of a job: a line fewer than the terminal has, and no wider."""
    width, height = terminal
    state = Said(view.state.text, kind_of(view) or BOLD)
    rows = [[Said(view.spider, BOLD), state], [Said(remedy_of(view) or "")]]
    for name, value, more in figures(view):
        first = value if value.kind else Said(value.text, BOLD)
        rows.append([Said(name.ljust(NAMES - 2), BOLD), first, *more])
    rows += [[], [Said(f"{'pending':>9} {'failed':>9}  slot".ljust(width), INVERSE)]]
    for name, pending in view.largest(max(2, height - 1 - len(rows))):
        failed = view.failed.slots.get(name, 0)
        counts = Said(f"{pending:>9,} {failed:>9,}", BAD * bool(failed))
        rows.append([counts, Said(slot_name(name)), Said(view.slowness(name), WARN)])
    return [_drawn(row, width, coloured=coloured) for row in rows[: height - 1]]


def _drawn(row: Sequence[Said], width: int, *, coloured: bool) -> str:
    """Return texts as a line in their colours, cut where the terminal ends."""
    line = ""
    for text, kind in row:
        cut = printable(text)[:width]
        style = STYLES.get(kind)
        line += f"\x1b[{style}m{cut}\x1b[0m" if coloured and style else cut
        line += "  "[: max(0, width - len(cut))]
        width = max(0, width - len(cut) - 2)
    return line.rstrip()
