"""SharedReport: a crawl that workers share on Redis, as one page in HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.ticker import MaxNLocator

from bloomdupe.crawl.progress.line import pages_lost
from bloomdupe.crawl.progress.pace import size
from bloomdupe.jobs.shared_overview import FINISHED, NOT_BEGUN, RUNNING
from bloomdupe.monitoring.charts import MOST_BARS, bars
from bloomdupe.monitoring.drawing import BAD, FIRST, drawing
from bloomdupe.monitoring.page import figure, in_figures, page, table, text, when

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from bloomdupe.jobs.shared_overview import SharedOverview
    from bloomdupe.monitoring.drawing import Chart

__all__ = ["report"]

MOST_SLOTS = 100
"""Rows of the table, largest slots first."""
MOST_PARTITIONS = 256
"""Bars, largest partitions first."""
NO_HISTORY = (
    "Workers share this crawl on Redis, which keeps no history of it: there are no"
    " charts over time, no runs, status codes, depths and failures."
)
NAMELESS = "(no slot)"
"""The slot name of items of ``start()``."""
FIGURES = (
    ("job.done", "requests done"),
    ("job.pending", "requests waiting"),
    ("job.leased", "requests under way"),
    ("job.taken_in", "requests ever taken in"),
    ("job.slots", "slots with requests waiting"),
    ("job.partitions", "partitions"),
    ("job.unowned_partitions", "of these, nobody has"),
    ("job.output_entries", "entries of output to be collected"),
    ("job.memory_bytes", "bytes that all data takes in this Redis"),
    ("keys", "URLs seen"),
    ("capacity", "expected URLs (n)"),
    ("fpp", "false-positive probability (p), given"),
    ("current_fpp", "the same, calculated for now"),
    ("expected_loss", "new URLs dropped, expected number"),
    ("grown_partitions", "partitions whose filters have grown"),
)
"""Names in ``bloomdupe info --json``, and in words."""
STATES = {
    RUNNING: "It is running.",
    FINISHED: "It has finished.",
    NOT_BEGUN: "It has not begun: nothing was taken in.",
}
STOPPED = "It has not finished, and no worker is alive. Start some, and it goes on."


def report(crawl: SharedOverview, read_at: float) -> str:
    """Return the page of a crawl that was read at a Unix time."""
    info = crawl.as_dict()
    title = f"Crawl of {crawl.identity.get('spider', crawl.url)}"
    tiles = _tiles(crawl, info)
    return page(
        title,
        [
            f"<h1>{text(title)}</h1>",
            f"<p>{STATES.get(crawl.state, STOPPED)}</p>",
            f'<p class="note">{text(crawl.url)}, as of {when(read_at)}</p>',
            '<div class="tiles">',
            *(f"<div>{name}<b>{text(value)}</b></div>" for name, value in tiles),
            "</div>",
            f'<p class="note">{NO_HISTORY}</p>',
            '<div class="charts">',
            *map(figure, _charts(crawl)),
            "</div>",
            *_workers(crawl),
            *_slots(crawl),
            *in_figures(FIGURES, info),
        ],
    )


def _tiles(crawl: SharedOverview, info: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "pages", f"{crawl.done:,}"
    yield "waiting", f"{crawl.pending:,}"
    yield "under way", f"{crawl.leased:,}"
    yield "hosts waiting", f"{len(crawl.slots):,}"
    yield "workers", f"{len(crawl.alive):,}"
    yield "partitions", f"{len(crawl.partitions):,}"
    yield "filter", f"{crawl.keys / crawl.capacity:.1%}"
    yield (
        "lost by it",
        pages_lost(info["expected_loss"]).replace("no page lost", "none"),
    )
    yield "output to collect", f"{crawl.entries:,}"
    yield "memory of Redis", size(crawl.memory)


def _charts(crawl: SharedOverview) -> Iterator[Chart]:
    largest = {name or NAMELESS: n for name, n in crawl.largest(MOST_BARS)}
    yield bars("Hosts", "Those with the most requests waiting.", largest)
    workers = sorted(crawl.workers, key=lambda worker: -worker.leased)[:MOST_BARS]
    yield bars(
        "Workers",
        "Requests under way.",
        {worker.name: worker.leased for worker in workers},
    )
    yield _partitions(crawl)


def _partitions(crawl: SharedOverview) -> Chart:
    """Draw the URLs in each partition: hosts differ in size, so partitions do."""
    with drawing() as (axes, chart):
        keys = sorted((one.keys for one in crawl.partitions), reverse=True)
        keys = keys[:MOST_PARTITIONS]
        axes.bar(range(1, len(keys) + 1), keys, color=FIRST)
        first = crawl.partitions[0].layers[0][0].capacity
        if keys[0] > first / 2:
            axes.axhline(first, color=BAD, ls="--", lw=1.2)
        axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
        chart.lowest = 0.0
        return chart(
            "Partitions",
            "URLs seen in each, the largest first. Above the dashed line, if there is"
            " one, a filter has grown.",
        )


def _workers(crawl: SharedOverview) -> Iterator[str]:
    if not crawl.workers:
        return
    yield "<h2>Workers</h2>"
    yield from table(
        ("worker", "partitions", "under way", ""),
        (
            f"<td>{text(worker.name)}</td>"
            f'<td class="number">{worker.partitions:,}</td>'
            f'<td class="number">{worker.leased:,}</td>'
            + (
                "<td>alive</td>"
                if worker.name in crawl.alive
                else '<td class="killed">has not answered lately</td>'
            )
            for worker in crawl.workers
        ),
    )


def _slots(crawl: SharedOverview) -> Iterator[str]:
    if not crawl.slots:
        return
    shown = crawl.largest(MOST_SLOTS)
    yield "<h2>Hosts</h2>"
    yield (
        f'<p class="note">The {len(shown):,} with the most requests waiting, of'
        f" {len(crawl.slots):,}.</p>"
    )
    yield from table(
        ("slot", "waiting"),
        (
            f'<td class="url">{text(slot or NAMELESS)}</td>'
            f'<td class="number">{requests:,}</td>'
            for slot, requests in shown
        ),
    )
