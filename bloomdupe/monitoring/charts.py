"""Charts: the history of a job, drawn as SVG for a page that is light or dark.

Between two runs nothing happens, be it for a second or for a week. So an axis has the
seconds that the crawl was running, and its ticks have the local time, as in the log.
"""

from __future__ import annotations

import math
import time
from itertools import groupby, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.crawl.progress.pace import DAY, rates
from bloomdupe.jobs.view import KILLED
from bloomdupe.monitoring.page import figure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bloomdupe.jobs.view import View

    Place = tuple[float, float]
    """Seconds that the crawl was running, and a value."""

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 350, 190, 36, 8, 22, 36
"""The picture, and its margins."""
PARTS = 240
"""Points of a line, at most: the page stays small."""
LEAST_STEP = 5.0
"""Seconds from one rate to the next, at least, and of a job that has charts."""
MOST_MARKS = 60
"""Runs with marks at their ends, the latest runs."""
TICKS = 4
"""Parts of an axis of time."""
RATE = "rate"
"""Pages a minute; all other figures of lines are fields of the points."""


class Drawn(NamedTuple):
    """A line of a chart."""

    figure: str
    colour: str = "first"
    """A colour of the page's style sheet."""
    name: str = ""


def _short(number: float) -> str:
    """Format a number: ``950``, ``1.5k``, ``20M``."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:g}{name}"
    return f"{number:g}"


CHARTS: tuple[tuple[str, str, Sequence[Drawn]], ...] = (
    ("Rate", "Pages a minute.", [Drawn(RATE)]),
    ("Pending", "Pending requests that are not delayed.", [Drawn("pending")]),
    (
        "Hosts",
        "Hosts with requests that are pending or in flight.",
        [Drawn("slots", name="active"), Drawn("backing_off", "second", "backing off")],
    ),
    (
        "Failed",
        "Failed requests that were not retried since.",
        [Drawn("failed", "bad")],
    ),
    (
        "Links",
        "New URLs, and links whose URL was seen before.",
        [
            Drawn("duplicates", "second", "duplicates skipped"),
            Drawn("seen", name="new"),
        ],
    ),
    (
        "Memory and disk",
        "Bytes.",
        [
            Drawn("memory", name="memory of the process"),
            Drawn("disk", "second", "store on the disk"),
        ],
    ),
)
"""Titles, notes, and lines; the most important first."""


def charts(view: View) -> Iterator[str]:
    """Yield the charts of a job over time; none if it was running for a moment only."""
    points = view.present
    if not points or points[-1].seconds - points[0].seconds < LEAST_STEP:
        return
    drawing = _Drawing(view)
    for title, note, lines in CHARTS:
        yield figure(title, note, drawing.of(lines))


class _Drawing:
    """The axis of time, and its marks, which all charts of a job share."""

    def __init__(self, view: View) -> None:
        self._points = points = view.present
        self._runs = [[*some] for _, some in groupby(points, attrgetter("run"))]
        self._begin = points[0].seconds
        self._length = points[-1].seconds - self._begin
        self._frame = "".join([self._bands(), *self._marks(view), *self._times()])

    def of(self, lines: Sequence[Drawn]) -> str:
        """Return the picture of lines."""
        drawn = [(line, self._pieces(line.figure)) for line in lines]
        values = (value for _, pieces in drawn for some in pieces for _, value in some)
        ticks = _ticks(max(values))
        inner = ""
        for tick in ticks:
            y = _y(tick, ticks[-1])
            inner += _path(f"M{LEFT} {y}H{WIDTH - RIGHT}", "stroke:var(--faint)")
            inner += _text(LEFT - 5, y + 4, _short(tick), "text-anchor:end")
        for number, (line, pieces) in enumerate(drawn):
            colour = f"var(--{line.colour})"
            inner += _text(LEFT + 130 * number, 12, line.name, f"fill:{colour}")
            places = (
                "L".join(f"{self._x(at)} {_y(value, ticks[-1])}" for at, value in piece)
                for piece in pieces
            )
            path = "".join(f"M{some}" for some in places)
            inner += _path(path, f"stroke:{colour};stroke-width:1.7")
        return (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">'
            f"{inner}{self._frame}</svg>"
        )

    def _pieces(self, figure: str) -> list[list[Place]]:
        """Return the pieces of a line; a kill that undoes some of it leaves a gap."""
        if figure == RATE:
            running = [point._replace(time=point.seconds) for point in self._points]
            parts = min(PARTS, int(self._length / LEAST_STEP))
            step = self._length / parts
            found = enumerate(rates(running, self._begin, parts))
            return [
                [(self._begin + at * step, r) for n, r in found for at in (n, n + 1)]
            ]
        step = max(1, len(self._points) // PARTS)
        return [
            [(one.seconds, getattr(one, figure)) for one in (*some[::step], some[-1])]
            for some in self._runs
        ]

    def _x(self, seconds: float) -> float:
        share = (seconds - self._begin) / self._length
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def _bands(self) -> str:
        """Shade the times when a slot backed off, over the whole height."""
        bands = "".join(
            f"M{self._x(one.seconds)} {TOP}H{self._x(after.seconds)}V{HEIGHT - BOTTOM}"
            f"H{self._x(one.seconds)}Z"
            for points in self._runs
            for one, after in pairwise(points)
            if one.backing_off
        )
        return _path(bands, "fill:var(--second);opacity:.18")

    def _marks(self, view: View) -> Iterator[str]:
        """Mark where a run has ended, in another way if it was killed."""
        endings = view.endings
        for some in self._runs[-MOST_MARKS:]:
            if endings[some[0].run] == KILLED:
                yield self._mark(some[-1].seconds, "stroke:var(--bad)", "6 4")
            elif some is not self._runs[-1]:
                yield self._mark(some[-1].seconds, "stroke:var(--good)", "2 3")

    def _mark(self, seconds: float, stroke: str, dashes: str) -> str:
        path = f"M{self._x(seconds)} {TOP}V{HEIGHT - BOTTOM}"
        return _path(path, f"{stroke};stroke-dasharray:{dashes}")

    def _times(self) -> Iterator[str]:
        """Name some moments by the local time, with the date where a day begins."""
        days = self._points[-1].time - self._points[0].time > 4 * DAY
        before = ""
        for number in range(TICKS + 1):
            seconds = self._begin + self._length * number / TICKS
            last = [one for one in self._points if one.seconds <= seconds][-1]
            moment = time.localtime(last.time + seconds - last.seconds)
            date = time.strftime("%b %d", moment)
            clock = "%H:%M:%S" if self._length < 10 * 60 else "%H:%M"
            anchor = "text-anchor:" + ("end" if number == TICKS else "middle")
            x, y = self._x(seconds), HEIGHT - BOTTOM + 16
            if not days:
                yield _text(x, y, time.strftime(clock, moment), anchor)
                y += 13
            if date != before:
                yield _text(x, y, date, anchor)
            before = date


def _ticks(highest: float) -> list[float]:
    """Return up to six round numbers, from 0 to the highest value or above."""
    least = max(1.0, highest / 5)
    power = 10 ** math.floor(math.log10(least))
    step = next(power * one for one in (1, 2, 5, 10) if power * one >= least)
    return [step * number for number in range(max(1, math.ceil(highest / step)) + 1)]


def _y(value: float, highest: float) -> float:
    return round(HEIGHT - BOTTOM - value / highest * (HEIGHT - TOP - BOTTOM), 1)


def _path(path: str, style: str) -> str:
    return f'<path d="{path}" style="{style}"/>'


def _text(x: float, y: float, words: str, style: str) -> str:
    return f'<text x="{x}" y="{y}" style="{style}">{words}</text>' if words else ""
