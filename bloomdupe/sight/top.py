"""Top: a job in a terminal, as it goes. Needs the package rich."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from bloomdupe.crawl.pace import RECENT, duration, rates, size, time_to_fill
from bloomdupe.crawl.pace import recent as recent_point
from bloomdupe.crawl.progress import pages_lost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

    from bloomdupe.sight.view import Reader, View

__all__ = ["SORTS", "follow", "screen"]

SORTS = ("waiting", "failed", "name")
BARS = "▁▂▃▄▅▆▇█"
PLAIN_BARS = "_.-=+*#@"
ESCAPE = "\x1b"
CALM = 10
"""The reading of a job takes at most one part in so many of the time."""
NARROW = 60
"""Columns below which names are short."""
ROWS = 12
"""Lines that are no slots: title, figures, heads."""


def follow(reader: Reader, console: Console, interval: float) -> None:
    """Show a job until q is pressed; every ``interval`` seconds anew.

    Keys: q quits, s sorts the slots in another way. If reading takes long, it is done
    less often.
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
                live.update(screen(view, console, SORTS[sort]), refresh=True)
                key = pressed(due - monotonic())
                if key is None:
                    break
                if key in ("q", "Q", ESCAPE, ""):
                    return
                if key in ("s", "S"):
                    sort = (sort + 1) % len(SORTS)


@contextmanager
def _keys() -> Iterator[_Pressed]:
    """Give what waits for a key; the terminal is as before in the end."""
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
        """Return a key, None if none came in so many seconds; empty: the end."""
        ready, _, _ = select.select([self._file], [], [], max(0.0, seconds))
        if not ready:
            return None
        return os.read(self._file, 64)[:1].decode("ascii", "replace")


def screen(view: View, console: Console, sort: str) -> RenderableType:
    """Return what to show of a job, no larger than the terminal."""
    width, height = console.size
    parts: list[RenderableType] = [_title(view, width), Text()]
    figures = Table.grid(padding=(0, 2))
    figures.add_column(no_wrap=True, style="bold")
    figures.add_column(no_wrap=True, overflow="ellipsis")
    room = width - 13
    for name, values in _figures(view, console, room):
        figures.add_row(name, _fitting(values, room))
    parts += [figures, Text()]
    parts.append(_slots(view, sort, max(3, height - ROWS - 3), width))
    keys = Text("q quit   s sort by ", style="dim", no_wrap=True)
    keys.append(SORTS[(SORTS.index(sort) + 1) % len(SORTS)], style="dim")
    parts.append(keys)
    return Group(*parts)


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
    title.append(view.spider, style="bold")
    title.append(f"  {state}", style=style)
    if width >= NARROW:
        title.append(f"  run {job.runs}, {duration(job.seconds)} in all", style="dim")
    return title


def _figures(
    view: View, console: Console, room: int
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield names, and what is to be said, most important first, with styles."""
    job, totals, last = view.job, view.totals, view.last
    pages = [(f"{totals.pages:,}", "bold"), (f"{totals.items:,} items", "")]
    if view.rate is not None and view.running:
        pages.insert(1, (f"{view.rate:,.0f} a minute", "green"))
    yield "pages", pages
    if last is not None:
        begin = max(view.points[0].time, last.time - RECENT)
        parts = max(1, min(room, 60))
        bars = BARS if console.encoding.startswith("utf") else PLAIN_BARS
        yield "", [(spark(rates(view.points, begin, parts), bars), "green")]
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


def _fitting(values: list[tuple[str, str]], room: int) -> Text:
    """Put together what fits into one line."""
    line = Text()
    for value, style in values:
        if line and len(line) + 2 + len(value) > room:
            break
        if line:
            line.append("  ")
        line.append(value, style=style)
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

    table = Table(box=None, padding=(0, 1), header_style="bold reverse", width=width)
    table.add_column("slot", ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column("waiting", justify="right", no_wrap=True)
    table.add_column("failed", justify="right", no_wrap=True)
    for name in sorted(names, key=order)[:rows]:
        errors = failed.get(name, 0)
        table.add_row(
            Text(_printable(name)),
            f"{waiting.get(name, 0):,}",
            Text(f"{errors:,}" if errors else "-", style="red" if errors else "dim"),
        )
    return table


def _printable(name: str) -> str:
    """Escape what could move the cursor: names come from the web."""
    return name if name.isprintable() else ascii(name)
