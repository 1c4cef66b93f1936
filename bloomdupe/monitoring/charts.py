"""Charts: the history of a job, drawn as SVG for a page that is light or dark.

Between two runs nothing happens, be it for a second or for a week. So an axis has the
seconds that the crawl was running, and its ticks have the local time, as in the log.
"""

from __future__ import annotations

import math
import time
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.crawl.progress.pace import rates, size
from bloomdupe.jobs.view import KILLED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bloomdupe.crawl.progress.history import Point
    from bloomdupe.jobs.view import View

    Place = tuple[float, float]
    """Seconds that the crawl was running, and a value."""

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 430, 210, 46, 10, 22, 36
"""The picture, and its margins."""
PARTS = 240
"""Points of a line, at most: the page stays small."""
LEAST_STEP = 5.0
"""Seconds from one rate to the next, at least."""
MOST_MARKS = 60
"""Runs with marks at their beginnings and ends, the latest runs."""
TICKS = 4
"""Parts of an axis of time."""
FIRST, SECOND, GOOD, BAD = "first", "second", "good", "bad"
"""Colours of the page's style sheet."""


class Chart(NamedTuple):
    """A chart."""

    title: str
    note: str
    """A sentence about the chart."""
    svg: str


class Drawn(NamedTuple):
    """A line of a chart: a field of the points."""

    field: str
    colour: str
    name: str = ""


RATE = "Pages a minute. Dotted lines: a run began; dashed lines: a run was killed."
LINES = (
    ("Rate", RATE, (Drawn("rate", FIRST),)),
    ("Pending", "Pending requests that are not scheduled for later.", (
        Drawn("pending", FIRST),
    )),
    ("Hosts over time", "Hosts with requests that are pending or in progress.", (
        Drawn("slots", FIRST, "active"), Drawn("resting", SECOND, "resting"),
    )),
    ("Failed", "Failed requests that were not retried since.", (Drawn("failed", BAD),)),
    ("Links", "New URLs, and links whose URL was seen before.", (
        Drawn("duplicates", SECOND, "duplicates skipped"), Drawn("seen", FIRST, "new"),
    )),
)  # fmt: skip
MEMORY = ("Memory", "Bytes of all data in Redis.", (Drawn("memory", FIRST),))
DISK = ("Memory and disk", "Bytes.", (
    Drawn("memory", FIRST, "memory of the process"),
    Drawn("disk", SECOND, "store on the disk"),
))  # fmt: skip


def charts(view: View) -> Iterator[Chart]:
    """Yield the charts of a job over time, the most important first."""
    if len(view.present) < 2:
        return
    drawing = _Drawing(view)
    for title, note, lines in LINES:
        yield Chart(title, note, drawing.of(lines, _short))
    title, note, lines = DISK if view.life.workers is None else MEMORY
    yield Chart(title, note, drawing.of(lines, size))


class _Drawing:
    """What the charts of a job have in common: the axis of time, and its marks."""

    def __init__(self, view: View) -> None:
        self._points = points = view.present
        self._runs = [[*some] for _, some in groupby(points, attrgetter("run"))]
        self._begin = points[0].seconds
        # Of runs with one point each, all points are at the same second.
        self._length = max(1.0, points[-1].seconds - self._begin)
        self._frame = "".join([*self._marks(view), *self._times()])

    def of(self, lines: tuple[Drawn, ...], shown: Callable[[float], str]) -> str:
        """Draw lines; a kill that undoes some of it leaves a gap."""
        drawn = [self._pieces(line.field) for line in lines]
        ticks = _ticks(
            max(value for some in drawn for piece in some for _, value in piece)
        )
        inner = ""
        for number, line in enumerate(lines):
            style = f"fill:var(--{line.colour})"
            inner += _text(LEFT + 130 * number, 12, line.name, style)
        for tick in ticks:
            y = _y(tick, ticks[-1])
            inner += _path(f"M{LEFT} {y}H{WIDTH - RIGHT}", "stroke:var(--faint)")
            inner += _text(LEFT - 5, y + 4, shown(tick), "text-anchor:end")
        for line, pieces in zip(lines, drawn, strict=True):
            path = "".join(
                "M" + "L".join(f"{self._x(at)} {_y(v, ticks[-1])}" for at, v in piece)
                for piece in pieces
            )
            inner += _path(path, f"stroke:var(--{line.colour});stroke-width:1.7")
        return (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">'
            f"{inner}{self._frame}</svg>"
        )

    def _pieces(self, field: str) -> list[list[Place]]:
        """Return the line of a field in pieces, or that of the rate."""
        if field != "rate":
            step = max(1, len(self._points) // PARTS)
            value: Callable[[Point], float] = attrgetter(field)
            return [
                [(one.seconds, value(one)) for one in (*some[::step], some[-1])]
                for some in self._runs
            ]
        running = [point._replace(time=point.seconds) for point in self._points]
        parts = max(1, min(PARTS, int(self._length / LEAST_STEP)))
        step_ = self._length / parts
        found = rates(running, self._begin, parts)
        return [
            [
                (self._begin + (number + more) * step_, rate)
                for number, rate in enumerate(found)
                for more in (0, 1)
            ]
        ]

    def _x(self, seconds: float) -> float:
        share = (seconds - self._begin) / self._length
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def _marks(self, view: View) -> Iterator[str]:
        """Mark where runs began, and where they were killed."""
        known = {some[0].run: some for some in self._runs}
        latest = [(one.number, how) for one, how in view.endings if one.number in known]
        for run, how in latest[-MOST_MARKS:]:
            if run != self._points[0].run:
                yield _mark(GOOD, "2 3", self._x(known[run][0].seconds))
            if how == KILLED:
                yield _mark(BAD, "6 4", self._x(known[run][-1].seconds))

    def _times(self) -> Iterator[str]:
        """Name some moments by the local time, with the date where a day begins."""
        before = ""
        for number in range(TICKS + 1):
            seconds = self._begin + self._length * number / TICKS
            last = [one for one in self._points if one.seconds <= seconds][-1]
            moment = time.localtime(last.time + seconds - last.seconds)
            date = time.strftime("%b %d", moment)
            clock = "%H:%M:%S" if self._length < 10 * 60 else "%H:%M"
            anchor = "text-anchor:" + ("end" if number == TICKS else "middle")
            x, y = self._x(seconds), HEIGHT - BOTTOM + 14
            yield _text(x, y, time.strftime(clock, moment), anchor)
            if date != before:
                yield _text(x, y + 13, date, anchor)
            before = date


def _ticks(highest: float) -> list[float]:
    """Return up to six round numbers, from 0 to the highest value or above."""
    least = max(1.0, highest / 5)
    power = 10 ** math.floor(math.log10(least))
    step = next(power * one for one in (1, 2, 5, 10) if power * one >= least)
    return [step * number for number in range(max(1, math.ceil(highest / step)) + 1)]


def _short(number: float) -> str:
    """Format a number: ``950``, ``1.5k``, ``20M``."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:g}{name}"
    return f"{number:g}"


def _y(value: float, highest: float) -> float:
    return round(HEIGHT - BOTTOM - value / highest * (HEIGHT - TOP - BOTTOM), 1)


def _path(path: str, style: str) -> str:
    return f'<path d="{path}" style="{style}"/>'


def _mark(colour: str, dashes: str, x: float) -> str:
    style = f"stroke:var(--{colour});stroke-dasharray:{dashes}"
    return _path(f"M{x} {TOP}V{HEIGHT - BOTTOM}", style)


def _text(x: float, y: float, words: str, style: str) -> str:
    return f'<text x="{x}" y="{y}" style="{style}">{words}</text>' if words else ""
