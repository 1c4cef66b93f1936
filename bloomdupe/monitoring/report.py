"""Report: a job as one page of HTML that loads no other files."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.crawl.progress.line import pages_lost
from bloomdupe.crawl.progress.pace import duration, local, size, zone
from bloomdupe.jobs import state as states
from bloomdupe.monitoring import tables
from bloomdupe.monitoring.charts import charts
from bloomdupe.monitoring.page import figure, page, text
from bloomdupe.monitoring.verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bloomdupe.jobs.view import View
    from bloomdupe.monitoring.charts import Chart

FIRST_CHARTS = 3
"""Charts to see at once; the others are folded."""
COLOURS = {
    states.RUNNING: "good",
    states.FINISHED: "good",
    states.SILENT: "alarm",
    states.KILLED: "alarm",
    states.STOPPED: "warn",
}


class Tile(NamedTuple):
    """A figure at the top of the page."""

    name: str
    value: str
    kind: str = ""
    """``bad`` or ``dim``, if it is."""


def report(view: View) -> str:
    """Return the page."""
    title = f"Crawl of {view.spider}"
    colour = COLOURS.get(view.state.name, "calm")
    if view.all_rest and colour == "good":
        colour = "warn"
    as_of = local(view.state.read_at)
    drawn = [*charts(view)]
    return page(
        title,
        [
            f"<h1>{text(title)}</h1>",
            f'<p class="verdict {colour}">{text(verdict(view))}</p>',
            f'<p class="note">{text(view.place)}, as of {as_of}. All times are in'
            f" {text(zone())}.</p>",
            '<div class="tiles">',
            *map(_tile, [*_counts(view), *_of_filter(view), *_of_redis(view)]),
            "</div>",
            *_missing(view),
            *tables.runs(view),
            *tables.failures(view),
            *tables.hosts(view),
            *_charts(drawn[:FIRST_CHARTS]),
            "<details><summary>More</summary>",
            *_charts(drawn[FIRST_CHARTS:]),
            *tables.statuses(view),
            "</details>",
        ],
    )


def _charts(drawn: Sequence[Chart]) -> Iterator[str]:
    if drawn:
        yield '<div class="charts">'
        yield from map(figure, drawn)
        yield "</div>"


def _tile(tile: Tile) -> str:
    kind = f' class="{tile.kind}"' if tile.kind else ""
    return f"<div{kind}>{text(tile.name)}<b>{text(tile.value)}</b></div>"


def _missing(view: View) -> Iterator[str]:
    """Give the reason if there are no charts over time."""
    if not view.points and view.state.name != states.NOT_BEGUN:
        yield (
            '<p class="note">There are no charts over time: the first run has just'
            " begun.</p>"
        )


def _counts(view: View) -> Iterator[Tile]:
    yield Tile("pages", f"{view.pages:,}")
    yield from _pace(view)
    yield Tile("pending", f"{view.pending:,}")
    failed = len(view.failed.requests)
    yield Tile("failed", f"{failed:,}", "bad" * bool(failed))
    yield Tile("active hosts", f"{len(view.slots):,}")
    if view.at_rest:
        yield Tile("resting hosts", f"{len(view.at_rest):,}", "bad")
    if view.workers is not None:
        yield Tile("workers", f"{view.workers.workers:,}")
        yield Tile("partitions", f"{view.workers.partitions:,}")
    yield Tile("items", f"{view.totals.items:,}")
    yield Tile("duplicates skipped", f"{view.totals.duplicates:,}")
    yield Tile("downloaded", size(view.totals.bytes))
    yield Tile("ran for", duration(view.seconds))
    ends = [how for _, how in view.endings]
    yield Tile("runs", f"{view.totals.runs:,}")
    yield Tile("kills", f"{ends.count(states.KILLED):,}")


def _pace(view: View) -> Iterator[Tile]:
    """Yield rate and time to go, dimmed if they hold only if a silent crawl goes on."""
    state = view.state
    if state.name not in (states.RUNNING, states.SILENT) or view.rate is None:
        return
    dim = "dim" * (state.name == states.SILENT)
    yield Tile("pages a minute", f"{view.rate:,.0f}", dim)
    if view.to_go is not None and not view.all_rest:
        yield Tile("to go", duration(view.to_go), dim)


def _of_filter(view: View) -> Iterator[Tile]:
    last = view.last
    if last is not None:
        yield Tile("filter", f"{last.seen / view.capacity:.1%} full")
        lost = pages_lost(last.loss).replace("no page lost", "none")
        yield Tile("lost by it", lost)


def _of_redis(view: View) -> Iterator[Tile]:
    workers = view.workers
    if workers is not None:
        yield Tile("output to collect", f"{workers.output_entries:,}")
        yield Tile("memory of Redis", size(workers.memory_bytes))
