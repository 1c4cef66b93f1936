"""Charts: the history of a job, drawn as SVG for a page that is light or dark.

Between two runs nothing happens, be it for a second or for a week. So an axis has the
seconds that the crawl was running, from the local time of the first point to that of
the last, and each run is a line of its own.
"""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.crawl.progress.pace import local, rates, size
from bloomdupe.jobs.view import KILLED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bloomdupe.jobs.view import View

    Line = list[tuple[float, float]]
    """Seconds that the crawl was running, and values."""

WIDTH, HEIGHT, TOP, BOTTOM = 430, 190, 30, 20
"""The picture, and its margins."""
PARTS = 240
"""Points of a line, at most: the page stays small."""
LEAST_STEP = 5.0
"""Seconds from one rate to the next, at least."""
COLOURS = ("first", "second")
"""Colours of the page's style sheet."""


class Chart(NamedTuple):
    """A chart."""

    title: str
    note: str
    """A sentence about the chart."""
    svg: str


def _short(number: float) -> str:
    return f"{number:,.0f}"


CHARTS: tuple[tuple[str, str, dict[str, str], Callable[[float], str]], ...] = (
    ("Rate", "Pages a minute. Dashed: a run was killed.", {"rate": ""}, _short),
    ("Pending", "Requests that are not scheduled for later.", {"pending": ""}, _short),
    (
        "Hosts over time",
        "Hosts with requests that are pending or in progress.",
        {"slots": "active", "resting": "resting"},
        _short,
    ),
    ("Failed", "Requests that were not retried since.", {"failed": ""}, _short),
    (
        "Links",
        "New URLs, and links whose URL was seen before.",
        {"seen": "new", "duplicates": "duplicates skipped"},
        _short,
    ),
)
"""Titles, notes, fields of the points with their names, and how values are shown."""
MEMORY = ("Memory", "Bytes of all data in Redis.", {"memory": ""}, size)
DISK = {"memory": "memory of the process", "disk": "store on the disk"}


def charts(view: View) -> Iterator[Chart]:
    """Yield the charts of a job over time, the most important first."""
    if len(view.present) < 2:
        return
    last = MEMORY if view.life.workers else ("Memory and disk", "Bytes.", DISK, size)
    for title, note, fields, shown in (*CHARTS, last):
        yield Chart(title, note, _svg(view, fields, shown))


def _svg(view: View, fields: dict[str, str], shown: Callable[[float], str]) -> str:
    points = view.present
    begin = points[0].seconds
    # Of runs with one point each, all points are at the same second.
    length = max(1.0, points[-1].seconds - begin)
    drawn = {field: [*_lines(view, field, begin, length)] for field in fields}
    highest = max(v for lines in drawn.values() for line in lines for _, v in line) or 1

    def x(seconds: float) -> float:
        return round((seconds - begin) / length * WIDTH, 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - value / highest * (HEIGHT - TOP - BOTTOM), 1)

    inner = f'<path d="M0 {TOP}H{WIDTH}M0 {HEIGHT - BOTTOM}H{WIDTH}"/>'
    inner += _text(0, TOP - 5, shown(highest), "")
    inner += _text(0, HEIGHT - 5, local(points[0].time), "")
    inner += _text(WIDTH, HEIGHT - 5, local(points[-1].time), "text-anchor:end")
    ends = {point.run: point.seconds for point in points}
    for run, how in view.endings:
        if how == KILLED and run.number in ends:
            at = x(ends[run.number])
            path = f'd="M{at} {TOP}V{HEIGHT - BOTTOM}" stroke-dasharray="6 4"'
            inner += f'<path {path} style="stroke:var(--bad)"/>'
    names = zip(COLOURS, fields.items(), strict=False)
    for number, (colour, (field, name)) in enumerate(names):
        inner += _text(130 * (number + 1), TOP - 5, name, f"fill:var(--{colour})")
        for line in drawn[field]:
            places = " ".join(f"{x(at)},{y(value)}" for at, value in line)
            inner += f'<polyline points="{places}" style="stroke:var(--{colour})"/>'
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">{inner}</svg>'


def _lines(view: View, field: str, begin: float, length: float) -> Iterator[Line]:
    """Yield the line of a field for each run, or that of the rate."""
    points = view.present
    if field == "rate":
        parts = max(1, min(PARTS, int(length / LEAST_STEP)))
        running = [point._replace(time=point.seconds) for point in points]
        found = enumerate(rates(running, begin, parts), 1)
        yield [(begin + length * number / parts, rate) for number, rate in found]
        return
    step = max(1, len(points) // PARTS)
    for _, some in groupby(points, attrgetter("run")):
        run = [*some]
        yield [(one.seconds, getattr(one, field)) for one in (*run[::step], run[-1])]


def _text(x: float, y: float, words: str, style: str) -> str:
    return f'<text x="{x}" y="{y}" style="{style}">{words}</text>'
