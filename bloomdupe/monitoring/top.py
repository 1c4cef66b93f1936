"""Top: a running job in a terminal. Needs the package rich."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Protocol, TypeVar

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from bloomdupe.crawl.progress.line import pages_lost
from bloomdupe.crawl.progress.pace import RECENT, duration, rates, size, time_to_fill
from bloomdupe.crawl.progress.pace import recent as recent_point
from bloomdupe.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeAlias

    from rich.console import Console, RenderableType

    from bloomdupe.crawl.progress.history import Point
    from bloomdupe.monitoring.view import View

    Figure: TypeAlias = tuple[str, list[tuple[str, str]]]
    """A name, and its values with styles, most important first."""

__all__ = [
    "NARROW",
    "SORTS",
    "figures_of",
    "follow",
    "frame",
    "history_bars",
    "names_table",
    "room_of",
    "screen",
]

Seen = TypeVar("Seen")
Seen_co = TypeVar("Seen_co", covariant=True)

SORTS = ("waiting", "failed", "name")
BARS = "▁▂▃▄▅▆▇█"
PLAIN_BARS = "_.-=+*#@"
ESCAPE = "\x1b"
CALM = 10
"""Reading a job takes at most one part in so many of the time."""
NARROW = 60
"""Columns below which names are short."""
ROWS = 12
"""Lines besides slots: title, figures, heads."""


class Readable(Protocol[Seen_co]):
    """A source of views."""

    def read(self) -> Seen_co:
        """Return the present view."""


def follow(
    reader: Readable[Seen],
    show: Callable[[Seen, Console, str], RenderableType],
    sorts: Sequence[str],
    console: Console,
    interval: float,
) -> None:
    """Show a job until q is pressed; refresh every ``interval`` seconds.

    Keys: q quits, s changes to the next of the ``sorts``. If reading takes long, it is
    done less often.
    """
    sort = 0
    with (
        _keys() as pressed,
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        while True:
            begun = monotonic()
            view = reader.read()
            took = monotonic() - begun
            due = begun + max(interval, CALM * took)
            while True:
                live.update(show(view, console, sorts[sort]), refresh=True)
                key = pressed(due - monotonic())
                if key is None:
                    break
                if key in ("q", "Q", ESCAPE, ""):
                    return
                if key in ("s", "S"):
                    sort = (sort + 1) % len(sorts)


@contextmanager
def _keys() -> Iterator[_Pressed]:
    """Give a function that waits for a key, and restore the terminal at the end."""
    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    tty.setcbreak(file)
    try:
        yield _Pressed(file)
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)


class _Pressed:
    """Waits for a key."""

    def __init__(self, file: int) -> None:
        self._file = file

    def __call__(self, seconds: float) -> str | None:
        """Return a key, None if no key came in so many seconds; empty: the end."""
        ready, _, _ = select.select([self._file], [], [], max(0.0, seconds))
        if not ready:
            return None
        return os.read(self._file, 64)[:1].decode("ascii", "replace")


def screen(view: View, console: Console, sort: str) -> RenderableType:
    """Return the screen of a job, no larger than the terminal."""
    width, height = console.size
    figures = figures_of(_figures(view, console, room_of(width)), width)
    slots = _slots(view, sort, max(3, height - ROWS - 3), width)
    return frame(_title(view, width), figures, [slots], SORTS, sort)


def frame(
    title: Text, figures: Table, tables: list[Table], sorts: Sequence[str], sort: str
) -> RenderableType:
    """Put a screen together."""
    parts: list[RenderableType] = [title, Text(), figures]
    for table in tables:
        parts += [Text(), table]
    keys = Text("q quit   s sort by ", style="dim", no_wrap=True)
    keys.append(sorts[(sorts.index(sort) + 1) % len(sorts)], style="dim")
    return Group(*parts, keys)


def room_of(width: int) -> int:
    """Return the columns left for values beside a name."""
    return width - 13


def figures_of(figures: Iterable[Figure], width: int) -> Table:
    """Return a line for each figure, with as many values as fit."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(no_wrap=True, overflow="ellipsis")
    for name, values in figures:
        table.add_row(name, _fitting(values, room_of(width)))
    return table


def _title(view: View, width: int) -> Text:
    job = view.job
    if view.running:
        state, style = f"running (process {job.process or 'unknown'})", "bold green"
    elif job.last_run == "finished":
        state, style = "finished", "bold cyan"
    elif job.last_run == "open":
        state, style = "killed", "bold red"
    else:
        state, style = f"stopped: {job.last_run}", "bold yellow"
    title = Text(no_wrap=True, overflow="ellipsis")
    title.append(printable(view.spider), style="bold")
    title.append(printable(f"  {state}"), style=style)
    if width >= NARROW:
        title.append(f"  run {job.runs}, {duration(job.seconds)} in all", style="dim")
    return title


def _figures(view: View, console: Console, room: int) -> Iterator[Figure]:
    job, totals, last = view.job, view.totals, view.last
    pages = [(f"{totals.pages:,}", "bold"), (f"{totals.items:,} items", "")]
    if view.rate is not None and view.running:
        pages.insert(1, (f"{view.rate:,.0f} a minute", "green"))
    yield "pages", pages
    if last is not None:
        yield "", [(history_bars(view.points, console, room), "green")]
    waiting = [(f"{job.pending:,}", "bold"), (f"{job.slots:,} slots", "")]
    if job.later:
        waiting.append((f"{job.later:,} for later", ""))
    if view.running and view.points:
        left = view.to_go
        said = "more come than go" if left is None else f"{duration(left)} to go"
        waiting.insert(1, (said, "yellow" if left is None else "cyan"))
    yield "waiting", waiting
    offered = totals.duplicates + job.taken_in
    share = totals.duplicates / offered if offered else 0.0
    yield "dropped", [(f"{totals.duplicates:,}", ""), (f"{share:.0%} of all links", "")]
    failed = len(view.failed.requests)
    reasons = [(f"{n:,} {name}", "") for name, n in view.failed.reasons.most_common(4)]
    yield "failed", [(f"{failed:,}", "bold red" if failed else ""), *reasons]
    if last is None:
        yield "history", [("none yet: made by an earlier version", "dim")]
        return
    fill = last.seen / view.capacity
    style = "yellow" if fill > 0.8 else ""
    yield "filter", [(f"{fill:.1%} full", style), (pages_lost(last.loss), "")]
    disk = [(size(last.disk), ""), (f"{size(last.free)} free", "")]
    filled = time_to_fill(recent_point(view.points), last) if view.running else None
    if filled is not None:
        disk.append((f"full in {duration(filled)}", ""))
    yield "disk", disk
    yield (
        "process",
        [
            (f"{size(last.memory)} memory", ""),
            (f"checkpoint {last.checkpoint * 1000:.0f} ms", ""),
        ],
    )


def history_bars(points: Sequence[Point], console: Console, room: int) -> str:
    """Return the rate of the last ten minutes as a line of bars."""
    begin = max(points[0].time, points[-1].time - RECENT)
    parts = max(1, min(room, 60))
    bars = BARS if console.encoding.startswith("utf") else PLAIN_BARS
    return spark(rates(points, begin, parts), bars)


def _fitting(values: list[tuple[str, str]], room: int) -> Text:
    """Join the values that fit into one line."""
    line = Text()
    for given, style in values:
        value = printable(given)
        if line and len(line) + 2 + len(value) > room:
            break
        if line:
            line.append("  ")
        line.append(value, style=style)
    line.truncate(room, overflow="ellipsis")
    return line


def spark(values: list[float], bars: str) -> str:
    """Return a line of bars, each as high as its value."""
    highest = max(values, default=0.0)
    if highest <= 0:
        return bars[0] * len(values)
    top = len(bars) - 1
    return "".join(bars[round(value / highest * top)] for value in values)


def _slots(view: View, sort: str, rows: int, width: int) -> Table:
    failed = view.failed.slots
    waiting = dict(view.slots)
    names = waiting.keys() | failed.keys()

    def order(name: str) -> tuple[int, str]:
        first = {"waiting": waiting, "failed": failed, "name": {}}[sort]
        return -first.get(name, 0), name

    table = names_table("slot", ["waiting", "failed"], width)
    for name in sorted(names, key=order)[:rows]:
        errors = failed.get(name, 0)
        table.add_row(
            Text(printable(name)),
            f"{waiting.get(name, 0):,}",
            Text(f"{errors:,}" if errors else "-", style="red" if errors else "dim"),
        )
    return table


def names_table(name: str, figures: Iterable[str], width: int) -> Table:
    """Return a table of names, and figures beside them, as wide as the terminal."""
    table = Table(box=None, padding=(0, 1), header_style="bold reverse", width=width)
    table.add_column(name, ratio=1, no_wrap=True, overflow="ellipsis")
    for figure in figures:
        table.add_column(figure, justify="right", no_wrap=True)
    return table
