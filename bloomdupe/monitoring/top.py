"""Top: a job in a terminal, as lines that are drawn anew."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from contextlib import contextmanager
from shutil import get_terminal_size
from textwrap import wrap
from time import monotonic
from typing import TYPE_CHECKING

from bloomdupe.crawl.progress.pace import RECENT, rates
from bloomdupe.errors import StoreUnreachableError
from bloomdupe.jobs.view import first_of, slot_name
from bloomdupe.monitoring.figures import BAD, GOOD, WARN, figures, remedy_of
from bloomdupe.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from bloomdupe.crawl.progress.history import Point
    from bloomdupe.jobs.job import Job
    from bloomdupe.jobs.view import View

    Values: TypeAlias = list[tuple[str, str]]
    """Texts with their styles, most important first."""

BARS = "▁▂▃▄▅▆▇█"
PLAIN_BARS = "_.-=+*#@"
ESCAPE = "\x1b"
CALM = 10
"""Reading a job takes at most one part in so many of the time."""
WIDE = 72
"""Columns from which on there is room for the reason why a slot is slow."""
NAMES = 13
"""Columns that the names of figures take."""
BESIDE = 4
"""Lines beside title, figures and slots: head, keys, and blank lines."""
SORTS: list[tuple[str, Callable[[View], Mapping[str, int]]]] = [
    ("pending", lambda view: view.slots),
    ("failed", lambda view: view.failed.slots),
    ("backing off", lambda view: dict.fromkeys(view.unavailable, 1)),
    ("name", lambda _: {}),
]
"""Ways to sort the slots: those with the highest counts come first."""
LEAST = 3
"""Figures that are always shown."""
BOLD, DIM, RED, YELLOW = "1", "2", "31", "33"
KINDS = {"": "", GOOD: "32", WARN: YELLOW, BAD: "1;31"}
"""Styles, as terminals number them."""
BEGIN, END = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"
"""Another screen, without a cursor, on which long lines are cut; and back."""


def follow(job: Job, interval: float) -> None:
    """Show a job until q is pressed.

    Refreshes every ``interval`` seconds, or less often if reading takes long. Keys: q
    quits, s sorts in the next of the ``SORTS``. If Redis does not answer any more, the
    last view stays, and says so.
    """
    coloured = not os.environ.get("NO_COLOR")
    sort, view, answers, due = 0, job.read(), True, 0.0
    with _keys() as pressed:
        while True:
            if (begun := monotonic()) >= due:
                try:
                    view, answers = job.read(), True
                except StoreUnreachableError:
                    answers = False
                due = begun + max(interval, CALM * (monotonic() - begun))
            terminal = get_terminal_size()
            lines = screen(view, terminal, sort, coloured=coloured, answers=answers)
            shown = "\x1b[K\r\n".join(lines).encode(sys.stdout.encoding, "replace")
            sys.stdout.buffer.write(b"\x1b[H" + shown + b"\x1b[J")
            sys.stdout.flush()
            key = pressed(due - monotonic())
            if key in ("q", "Q", ESCAPE, ""):
                return
            sort += key in ("s", "S")


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
    view: View,
    terminal: tuple[int, int],
    sort: int = 0,
    *,
    coloured: bool = False,
    answers: bool = True,
) -> list[str]:
    """Return the lines of a job, no more and no longer than the terminal has room for.

    The last one explains the keys. Without ``answers`` of Redis, the view is old.
    """
    width, height = terminal
    head = _head(view, width, answers=answers)[: max(1, height // 4)]
    beside = BESIDE + len(head)
    shown = [*_figures(view, width)][: max(LEAST, height - beside - 2)]
    rows = max(2, height - beside - len(shown))
    all_slots = view.slots.keys() | view.failed.slots
    names = first_of(all_slots, rows, SORTS[sort % len(SORTS)][1](view))
    lines: list[Values] = [*head, [], *shown, [], *_slots(view, names, width)]
    following, _ = SORTS[(sort + 1) % len(SORTS)]
    lines.append([(f"q quit   s sort by {following}", DIM)])
    return [_drawn(line, width, coloured=coloured) for line in lines]


def _drawn(line: Values, width: int, *, coloured: bool) -> str:
    """Return a line in its colours, cut where the terminal ends."""
    drawn = ""
    for text, style in line:
        cut = text if len(text) <= width else f"{text[: max(0, width - 1)]}…"[:width]
        width -= len(cut)
        drawn += f"\x1b[{style}m{cut}\x1b[0m" if coloured and style and cut else cut
    return drawn if coloured else drawn.rstrip()


def _head(view: View, width: int, *, answers: bool) -> list[Values]:
    """Return the lines with the name and the state of the job, and the remedy."""
    remedy = remedy_of(view)
    state = (printable(view.state.text), KINDS[remedy.kind] or BOLD)
    if not answers:
        state = ("Redis does not answer", KINDS[BAD])
    name = printable(view.spider)
    lines: list[Values] = [[(f"{name}  ", BOLD), state]]
    if len(name) + 2 + len(state[0]) > width:
        lines = [*_wrapped(name, BOLD, width), *_wrapped(*state, width)]
    return [*lines, *_wrapped(remedy.text, "", width)]


def _wrapped(text: str, style: str, width: int) -> list[Values]:
    return [[(line, style)] for line in wrap(text, width)]


def _figures(view: View, width: int) -> Iterator[Values]:
    """Yield the figures that fit into a line, those of failures in several lines."""
    for one in figures(view):
        value = one.value.text, KINDS[one.value.kind] or BOLD
        line: Values = [(one.name.ljust(NAMES), BOLD), value]
        for text, kind in one.more:
            shown = f"  {printable(text)}"
            if sum(len(before) for before, _ in line) + len(shown) > width:
                if one.name != "failed":
                    break
                yield line
                line = [(" " * (NAMES - 2), "")]
            line.append((shown, KINDS[kind]))
        yield line
        if one.name == "pages" and view.present:
            bars = history_bars(view.present, width - NAMES)
            yield [(" " * NAMES, ""), (bars, KINDS[GOOD])]


def history_bars(points: Sequence[Point], columns: int) -> str:
    """Return the rate of the last ten minutes as a line of bars."""
    begin = max(points[0].time, points[-1].time - RECENT)
    parts = max(1, min(columns, 60))
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    bars = BARS if encoding.lower().startswith("utf") else PLAIN_BARS
    return spark(rates(points, begin, parts), bars)


def spark(values: list[float], bars: str) -> str:
    """Return a line of bars, each as high as its value."""
    highest = max(values, default=0.0)
    if highest <= 0:
        return bars[0] * len(values)
    top = len(bars) - 1
    return "".join(bars[round(value / highest * top)] for value in values)


# The slots


def _slots(view: View, names: list[str], width: int) -> Iterator[Values]:
    """Yield the slots, with their failures, as wide as the terminal."""
    failed = view.failed.slots
    slow = [printable(view.slowness(name)) if width >= WIDE else "" for name in names]
    room = min(width // 2, max(map(len, slow), default=0))
    columns = max(1, width - 20 - (room + 2 if room else 0))

    def line(name: str, pending: str, failures: str) -> Values:
        if len(name) > columns:
            name = f"{name[: columns - 1]}…"
        return [(f" {name:{columns}}{pending:>9}", ""), (f"{failures:>9} ", "")]

    heads = "".join(text for text, _ in line("host", "pending", "failed"))
    if names:
        yield [(heads.ljust(width), "1;7")]
    for name, why in zip(names, slow, strict=True):
        count = failed.get(name, 0)
        shown = f"{count:,}" if count else "-"
        first, (last, _) = line(
            printable(slot_name(name)), f"{view.slots.get(name, 0):,}", shown
        )
        yield [
            first,
            (last, RED if count else DIM),
            (f"  {why}" if why else "", YELLOW if name in view.unavailable else DIM),
        ]
