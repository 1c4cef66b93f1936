"""Report: a job as one page of HTML that loads no other files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.crawl.progress.pace import local, zone
from bloomdupe.jobs import state as states
from bloomdupe.jobs.figures import figures
from bloomdupe.monitoring import tables
from bloomdupe.monitoring.charts import charts
from bloomdupe.monitoring.page import figure, page, text
from bloomdupe.monitoring.verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bloomdupe.jobs.figures import Figure
    from bloomdupe.jobs.view import View
    from bloomdupe.monitoring.charts import Chart

MOST = 3
"""Texts beside a figure."""
FIRST_CHARTS = 3
"""Charts to see at once; the others are folded."""
COLOURS = {
    states.RUNNING: "good",
    states.FINISHED: "good",
    states.SILENT: "alarm",
    states.KILLED: "alarm",
    states.STOPPED: "warn",
}


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
            *map(_tile, figures(view, old=True)),
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


def _tile(figure: Figure) -> str:
    kind = f' class="{figure.value.kind}"' * bool(figure.value.kind)
    more = (f'<i class="{one.kind}">{text(one.text)}</i>' for one in figure.more[:MOST])
    value = f"<b>{text(figure.value.text)}</b>"
    return f"<div{kind}>{text(figure.name)}{value}{', '.join(more)}</div>"


def _missing(view: View) -> Iterator[str]:
    """Give the reason if there are no charts over time."""
    if not view.points and view.state.name != states.NOT_BEGUN:
        yield (
            '<p class="note">There are no charts over time: the first run has just'
            " begun.</p>"
        )
