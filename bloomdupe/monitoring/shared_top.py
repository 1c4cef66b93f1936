"""SharedTop: a crawl that workers share, in a terminal. Needs the package rich."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from bloomdupe.crawl.progress.pace import duration, size
from bloomdupe.jobs.shared_overview import FINISHED, NOT_BEGUN, RUNNING
from bloomdupe.monitoring.top import (
    NARROW,
    figures_of,
    frame,
    history_bars,
    names_table,
    room_of,
)
from bloomdupe.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType
    from rich.table import Table

    from bloomdupe.monitoring.shared_view import SharedView
    from bloomdupe.monitoring.top import Figure

__all__ = ["SORTS", "screen"]

SORTS = ("waiting", "name")
STYLES = {RUNNING: "bold green", FINISHED: "bold cyan", NOT_BEGUN: "bold"}
BESIDE = 7
"""Lines besides figures, slots and workers: title, heads, keys, and blank lines."""
SHORT_HEADS = ["parts", "work", "/s"]
LEAST = 3
"""Figures that are always shown."""


def screen(view: SharedView, console: Console, sort: str) -> RenderableType:
    """Return the screen of a crawl, no larger than the terminal."""
    width, height = console.size
    figures = list(_figures(view, console, room_of(width)))
    figures = figures[: max(LEAST, height - BESIDE - 2)]
    rows = max(2, height - BESIDE - len(figures))
    workers = min(len(view.crawl.workers), max(1, rows // 3))
    tables = [_workers(view, workers, width)] if workers else []
    tables.append(_slots(view, sort, rows - workers, width))
    title = _title(view, width)
    return frame(title, figures_of(figures, width), tables, SORTS, sort)


def _title(view: SharedView, width: int) -> Text:
    crawl = view.crawl
    title = Text(no_wrap=True, overflow="ellipsis")
    title.append(printable(str(crawl.identity.get("spider", crawl.url))), style="bold")
    if view.trouble is not None:
        title.append("  Redis does not answer", style="bold red")
    elif crawl.state in STYLES:
        title.append(f"  {crawl.state}", style=STYLES[crawl.state])
    else:
        title.append("  stopped: no worker is alive", style="bold yellow")
    if width >= NARROW:
        title.append(f"  {len(crawl.partitions):,} partitions on Redis", style="dim")
    return title


def _figures(view: SharedView, console: Console, room: int) -> Iterator[Figure]:
    crawl, rate = view.crawl, view.rate
    pages = [(f"{crawl.done:,}", "bold")]
    if rate is not None and view.running:
        pages.append((f"{rate:,.1f} a second", "green"))
    yield "pages", pages
    if len(view.points) > 2:
        yield "", [(history_bars(view.points, console, room), "green")]
    waiting = [(f"{crawl.pending:,}", "bold"), (f"{len(crawl.slots):,} slots", "")]
    if view.running and rate is not None:
        left = view.to_go
        said = "more come than go" if left is None else f"{duration(left)} to go"
        waiting.insert(1, (said, "yellow" if left is None else "cyan"))
    yield "waiting", waiting
    yield "at work", [(f"{crawl.leased:,}", "")]
    workers = [(f"{len(crawl.alive):,} alive", "")]
    if crawl.unowned:
        workers.append((f"{crawl.unowned:,} partitions that nobody has", "yellow"))
    yield "workers", workers
    fill = crawl.keys / crawl.capacity
    yield "filter", [(f"{fill:.1%} full", "yellow" if fill > 0.8 else "")]
    yield "output", [(f"{crawl.entries:,} entries to be collected", "")]
    memory = [(f"{size(crawl.memory)} of this Redis", "")]
    if crawl.memory_limit:
        full = crawl.memory > 0.8 * crawl.memory_limit
        limit = f"{size(crawl.memory_limit)} at most"
        memory.append((limit, "yellow" if full else ""))
    yield "memory", memory


def _workers(view: SharedView, rows: int, width: int) -> Table:
    heads = ["partitions", "at work", "a second"] if width >= NARROW else SHORT_HEADS
    table = names_table("worker", heads, width)
    workers = sorted(view.crawl.workers, key=lambda one: -view.paces.get(one.name, 0.0))
    for worker in workers[:rows]:
        pace = view.paces.get(worker.name)
        table.add_row(
            Text(
                printable(worker.name),
                style="" if worker.name in view.crawl.alive else "red",
            ),
            f"{worker.partitions:,}",
            f"{worker.leased:,}",
            "-" if pace is None else f"{pace:,.1f}",
        )
    return table


def _slots(view: SharedView, sort: str, rows: int, width: int) -> Table:
    slots = view.crawl.slots
    shown = (
        view.crawl.largest(rows)
        if sort == SORTS[0]
        else [(name, slots[name]) for name in sorted(slots)[:rows]]
    )
    table = names_table("slot", ["waiting"], width)
    for name, requests in shown:
        table.add_row(Text(printable(name) or "(no slot)"), f"{requests:,}")
    return table
