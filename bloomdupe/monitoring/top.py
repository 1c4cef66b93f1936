"""Top: a running job in a terminal. Needs the package rich."""

from __future__ import annotations

import heapq
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

from bloomdupe.crawl.progress.line import pages_lost
from bloomdupe.crawl.progress.pace import (
    RECENT,
    duration,
    plural,
    rates,
    recent,
    size,
    time_to_fill,
)
from bloomdupe.jobs import state as states
from bloomdupe.jobs.view import slot_name
from bloomdupe.monitoring.verdict import remedy_of
from bloomdupe.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from rich.console import Console, RenderableType

    from bloomdupe.crawl.progress.history import Point
    from bloomdupe.jobs.reader import JobReader
    from bloomdupe.jobs.state import WorkerFigures
    from bloomdupe.jobs.view import View

    Values: TypeAlias = list[tuple[str, str]]
    """Values with styles, most important first."""
    Figure: TypeAlias = tuple[str, Values]
    """A name and its values."""

BARS = "▁▂▃▄▅▆▇█"
PLAIN_BARS = "_.-=+*#@"
ESCAPE = "\x1b"
CALM = 10
"""Reading a job takes at most one part in so many of the time."""
NARROW = 60
"""Columns below which names are short."""
WIDE = 72
"""Columns from which on there is room for the reason why a slot is slow."""
NAMES = 13
"""Columns that the names of figures take."""
BESIDE = 4
"""Lines beside title, figures and slots: head, keys, and blank lines."""
SORTS = ("pending", "failed", "resting", "name")
"""Ways to sort the slots."""
LEAST = 3
"""Figures that are always shown."""
DIM = "dim"
"""Style of forecasts that hold only if a silent crawl goes on."""
STYLES = {
    states.RUNNING: "bold green",
    states.SLEEPING: "bold blue",
    states.WAITING: "bold blue",
    states.SILENT: "bold white on red",
    states.IN_USE: "bold",
    states.FINISHED: "bold cyan",
    states.NOT_BEGUN: "bold",
    states.KILLED: "bold red",
    states.STOPPED: "bold yellow",
}


def follow(reader: JobReader, console: Console, interval: float) -> View:
    """Show a job until q is pressed; return the last view.

    Refreshes every ``interval`` seconds, or less often if reading takes long. Keys: q
    quits, s changes to the next of the :func:`sorts`.
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
                shown = screen(view, console, SORTS[sort])
                live.update(shown, refresh=True)
                key = pressed(due - monotonic())
                if key is None:
                    break
                if key in ("q", "Q", ESCAPE, ""):
                    return view
                if key in ("s", "S"):
                    sort = (sort + 1) % len(SORTS)


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
    head = _head(view, console, width)[: max(1, height // 4)]
    beside = BESIDE + len(head)
    figures = list(_figures(view, console, _columns_beside_names(width)))
    figures = figures[: max(LEAST, height - beside - 2)]
    rows = max(2, height - beside - len(figures))
    names = _names(view, sort, rows)
    reasons = []
    if width < WIDE:
        reasons = _reasons(view, names, console, width)[: rows // 2]
    table = _slots(view, names[: rows - len(reasons)], width)
    keys = Text("q quit   s sort by ", style="dim", no_wrap=True)
    keys.append(SORTS[(SORTS.index(sort) + 1) % len(SORTS)], style="dim")
    return Group(
        *head, Text(), _table_of(figures, width), Text(), table, *reasons, keys
    )


def _columns_beside_names(width: int) -> int:
    """Return the columns left for values beside a name."""
    return width - NAMES


def _table_of(figures: Iterable[Figure], width: int) -> Table:
    """Return a line for each figure, with as many values as fit."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(no_wrap=True, overflow="ellipsis")
    for name, values in figures:
        table.add_row(name, _fitting(values, _columns_beside_names(width)))
    return table


def _head(view: View, console: Console, width: int) -> list[Text]:
    """Return the lines with the name and the state of the job, and the remedy."""
    state = view.state
    lines = [Text(printable(view.spider), style="bold")]
    if view.trouble is not None:
        lines.append(Text("Redis does not answer", style="bold red"))
    else:
        style = "bold yellow" if view.all_rest else STYLES[state.name]
        lines.append(Text(printable(state.text), style=style))
    if width >= NARROW:
        extent = Text(_extent(view), style="dim")
        lines = [Text("  ").join([*lines, extent] if extent else lines)]
    remedy = remedy_of(view)
    if remedy is not None:
        lines.append(Text(remedy))
    return [part for line in lines for part in line.wrap(console, width)]


def _extent(view: View) -> str:
    runs = view.totals.runs
    return f"run {runs}, {duration(view.seconds)} in all" if runs else ""


def _figures(view: View, console: Console, columns: int) -> Iterator[Figure]:
    """Yield the figures that the engine of the job knows."""
    # Old forecasts are dimmed, and left out where that cannot be seen.
    shown = [states.RUNNING, *[states.SILENT] * console.is_terminal]
    forecast = view.state.name in shown
    yield "pages", _pages(view, forecast=forecast)
    points = view.present
    if points:
        yield "", [(history_bars(points, console, columns), "green")]
    yield "pending", _pending(view, forecast=forecast)
    if view.workers is not None:
        yield from _figures_of_workers(view, view.workers)
    yield _skipped(view)
    yield from _failed(view, columns)
    last = view.last
    if last is None:
        if view.state.name != states.NOT_BEGUN:
            yield "history", [("none yet", "dim")]
        return
    fill = last.seen / view.capacity
    filled = (f"{fill:.1%} full", "yellow" if fill > 0.8 else "")
    yield "filter", [filled, (pages_lost(last.loss), "")]
    if view.workers is not None:
        yield from _stored_on_redis(view.workers)
    else:
        yield from _stored_on_disk(view, last)


def _pages(view: View, *, forecast: bool) -> Values:
    pages = [(f"{view.pages:,}", "bold")]
    state = view.state
    if view.rate is not None and forecast:
        rate = f"{view.rate:,.0f} a minute"
        style = "green" if view.rate >= 0.5 else "yellow"
        pages.append((rate, DIM if state.name == states.SILENT else style))
    pages.append((plural(view.totals.items, "item"), ""))
    return pages


def _pending(view: View, *, forecast: bool) -> Values:
    pending = [(f"{view.pending:,}", "bold")]
    silent = view.state.name == states.SILENT
    if view.all_rest and not silent:
        pending.append(("all resting", "yellow"))
    elif forecast and view.points:
        left = view.to_go
        text = "no end in sight" if left is None else f"{duration(left)} to go"
        style = "yellow" if left is None else "cyan"
        pending.append((text, DIM if silent else style))
        if view.at_rest:
            pending.append((f"{len(view.at_rest):,} resting", "yellow"))
    if view.slots:
        pending.append((plural(len(view.slots), "slot"), ""))
    if view.later:
        pending.append((f"{view.later:,} scheduled for later", ""))
    return pending


def _figures_of_workers(view: View, workers: WorkerFigures) -> Iterator[Figure]:
    alive = [(f"{workers.workers:,} alive", "")]
    if view.unattended:
        partitions = plural(view.unattended, "partition")
        alive.append((f"{partitions} without a worker", "yellow"))
    yield "workers", alive


def _skipped(view: View) -> Figure:
    duplicates = view.totals.duplicates
    offered = duplicates + view.taken_in
    share = duplicates / offered if offered else 0.0
    return "skipped", [(f"{duplicates:,}", ""), (f"{share:.0%} of all links", "")]


def _failed(view: View, columns: int) -> Iterator[Figure]:
    """Yield the number of failed requests, and of each reason; in lines that fit."""
    failed = len(view.failed.requests)
    values = [(f"{failed:,}", "bold red" if failed else "")]
    name = "failed"
    for cause, requests in view.failed.reasons.most_common():
        more = (f"{requests:,} {cause}", "")
        if len("  ".join(value for value, _ in [*values, more])) > columns:
            yield name, values
            name, values = "", []
        values.append(more)
    yield name, values


def _stored_on_disk(view: View, last: Point) -> Iterator[Figure]:
    disk = [(size(last.disk), ""), (f"{size(last.free)} free", "")]
    running = view.state.name == states.RUNNING
    filled = time_to_fill(recent(view.points), last) if running else None
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


def _stored_on_redis(workers: WorkerFigures) -> Iterator[Figure]:
    entries = plural(workers.output_entries, "entry", "entries")
    yield "output", [(f"{entries} to be collected", "")]
    memory = [(f"{size(workers.memory_bytes)} of this Redis", "")]
    if workers.memory_limit:
        full = workers.memory_bytes > 0.8 * workers.memory_limit
        limit = f"{size(workers.memory_limit)} at most"
        memory.append((limit, "yellow" if full else ""))
    yield "memory", memory


def history_bars(points: Sequence[Point], console: Console, columns: int) -> str:
    """Return the rate of the last ten minutes as a line of bars."""
    begin = max(points[0].time, points[-1].time - RECENT)
    parts = max(1, min(columns, 60))
    bars = BARS if console.encoding.startswith("utf") else PLAIN_BARS
    return spark(rates(points, begin, parts), bars)


def _fitting(values: list[tuple[str, str]], columns: int) -> Text:
    """Join the values that fit into one line."""
    line = Text()
    for given, style in values:
        value = printable(given)
        if line and len(line) + 2 + len(value) > columns:
            break
        if line:
            line.append("  ")
        line.append(value, style=style)
    line.truncate(columns, overflow="ellipsis")
    return line


def spark(values: list[float], bars: str) -> str:
    """Return a line of bars, each as high as its value."""
    highest = max(values, default=0.0)
    if highest <= 0:
        return bars[0] * len(values)
    top = len(bars) - 1
    return "".join(bars[round(value / highest * top)] for value in values)


def _names(view: View, sort: str, most: int) -> list[str]:
    """Return the names of the slots that come first."""
    pending = view.slots
    failed = view.failed.slots
    resting = dict.fromkeys(view.at_rest, 1)
    by: dict[str, Mapping[str, int]]
    by = {"pending": pending, "failed": failed, "resting": resting}
    first = by.get(sort, {})
    return heapq.nsmallest(
        most,
        pending.keys() | failed,
        key=lambda name: (-first.get(name, 0), name),
    )


def _reasons(view: View, names: list[str], console: Console, width: int) -> list[Text]:
    """Return lines with the reasons why slots are slow, if they fit into no column."""
    lines: list[Text] = []
    for name in names:
        slow = view.slowness(name)
        if slow:
            text = Text(printable(f"{slot_name(name)} {slow}"), style="yellow")
            lines += text.wrap(console, width)
    return lines


def _slots(view: View, names: list[str], width: int) -> Table:
    """Return the slots, with their failures."""
    pending = view.slots
    failed = view.failed.slots
    table = _names_table("slot", ["pending", "failed"], width)
    slow = {name: view.slowness(name) for name in names if width >= WIDE}
    if any(slow.values()):
        table.add_column("", no_wrap=True, overflow="ellipsis", max_width=width // 2)
    for name in names:
        count = failed.get(name, 0)
        style = "red" if count else "dim"
        cells: list[RenderableType] = [
            f"{pending.get(name, 0):,}",
            Text(f"{count:,}" if count else "-", style=style),
        ]
        if any(slow.values()):
            cells.append(Text(printable(slow[name]), style="yellow"))
        table.add_row(Text(printable(slot_name(name))), *cells)
    return table


def _names_table(name: str, figures: Iterable[str], width: int) -> Table:
    """Return a table of names, and figures beside them, as wide as the terminal."""
    table = Table(box=None, padding=(0, 1), header_style="bold reverse", width=width)
    table.add_column(name, ratio=1, no_wrap=True, overflow="ellipsis")
    for figure in figures:
        table.add_column(figure, justify="right", no_wrap=True)
    return table
