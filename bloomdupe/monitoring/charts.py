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

from bloomdupe.crawl.progress.pace import DAY, rates, size
from bloomdupe.jobs.view import KILLED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

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


LINES = (
    ("Pending", "Pending requests that are not delayed.", (
        Drawn("pending", FIRST),
    )),
    ("Hosts over time", "Hosts with requests that are pending or in flight.", (
        Drawn("slots", FIRST, "active"), Drawn("backing_off", SECOND, "backing off"),
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
    yield drawing.of_rates()
    for title, note, lines in LINES:
        yield Chart(title, note, drawing.of_lines(lines, _short))
    title, note, lines = DISK if view.life.workers is None else MEMORY
    yield Chart(title, note, drawing.of_lines(lines, size))


class _Drawing:
    """What the charts of a job have in common: the axis of time, and its marks."""

    def __init__(self, view: View) -> None:
        self._points = points = view.present
        self._runs = [[*some] for _, some in groupby(points, attrgetter("run"))]
        self._begin = points[0].seconds
        # Of runs with one point each, all points are at the same second.
        self._length = max(1.0, points[-1].seconds - self._begin)
        self._who = "process was" if view.life.workers is None else "workers were"
        known = {some[0].run: some for some in self._runs}
        latest = [(one.number, how) for one, how in view.endings]
        self._marks = [
            *(
                (GOOD, "2 3", known[run][0].seconds)
                for run, _ in latest[-MOST_MARKS:]
                if run != points[0].run
            ),
            *(
                (BAD, "6 4", known[run][-1].seconds)
                for run, how in latest[-MOST_MARKS:]
                if how == KILLED
            ),
        ]
        marks = (
            _mark(colour, dashes, self._x(at)) for colour, dashes, at in self._marks
        )
        self._frame = "".join([*marks, *self._times()])

    def of_rates(self) -> Chart:
        """Draw the pages a minute, and when a slot backed off."""
        running = [point._replace(time=point.seconds) for point in self._points]
        parts = max(1, min(PARTS, int(self._length / LEAST_STEP)))
        step = self._length / parts
        found = rates(running, self._begin, parts)
        ends = ((self._begin + n * step, rate) for n, rate in enumerate(found))
        places = [(at + more, rate) for at, rate in ends for more in (0.0, step)]
        line = [(FIRST, True, [places])]
        svg = self._svg(line, max(found), _short, self._backoffs())
        words = ["Pages a minute"]
        if any(point.backing_off for point in self._points):
            words.append("bands: a host backed off")
        colours = {colour for colour, _, _ in self._marks}
        if GOOD in colours:
            words.append("dotted lines: a run began")
        if BAD in colours:
            words.append(f"dashed lines: the {self._who} killed")
        return Chart("Rate", f"{'; '.join(words)}.", svg)

    def of_lines(self, lines: Sequence[Drawn], shown: Callable[[float], str]) -> str:
        """Draw fields of the points; a kill that undoes some of it leaves a gap."""
        values = [attrgetter(line.field) for line in lines]
        drawn = [
            (line.colour, False, [self._thin(some, value) for some in self._runs])
            for line, value in zip(lines, values, strict=True)
        ]
        highest = max(float(value(one)) for value in values for one in self._points)
        names = "".join(
            _text(LEFT + 130 * number, 12, line.name, f"fill:var(--{line.colour})")
            for number, line in enumerate(lines)
        )
        return self._svg(drawn, highest, shown, names)

    def _thin(
        self, points: Sequence[Point], value: Callable[[Point], float]
    ) -> list[Place]:
        step = max(1, len(self._points) // PARTS)
        return [(one.seconds, value(one)) for one in (*points[::step], points[-1])]

    def _svg(
        self,
        lines: Iterable[tuple[str, bool, list[list[Place]]]],
        highest: float,
        shown: Callable[[float], str],
        more: str,
    ) -> str:
        """Return the picture of lines: colour, whether it is filled, and its pieces."""
        ticks = _ticks(highest)
        inner = more
        for tick in ticks:
            y = _y(tick, ticks[-1])
            inner += _path(f"M{LEFT} {y}H{WIDTH - RIGHT}", "stroke:var(--faint)")
            inner += _text(LEFT - 5, y + 4, shown(tick), "text-anchor:end")
        for colour, filled, pieces in lines:
            places = [
                [f"{self._x(at)} {_y(value, ticks[-1])}" for at, value in piece]
                for piece in pieces
            ]
            if filled:
                bottom = _y(0, 1)
                area = "".join(
                    f"M{some[0].split()[0]} {bottom}L{'L'.join(some)}V{bottom}Z"
                    for some in places
                )
                inner += _path(area, f"fill:var(--{colour});opacity:.25")
            line = "".join(f"M{'L'.join(some)}" for some in places)
            inner += _path(line, f"stroke:var(--{colour});stroke-width:1.7")
        return (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">'
            f"{inner}{self._frame}</svg>"
        )

    def _x(self, seconds: float) -> float:
        share = (seconds - self._begin) / self._length
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def _backoffs(self) -> str:
        """Shade the times when a slot backed off, over the whole height."""
        bands = "".join(
            f"M{self._x(one.seconds)} {TOP}H{self._x(after.seconds)}V{HEIGHT - BOTTOM}"
            f"H{self._x(one.seconds)}Z"
            for points in self._runs
            for one, after in pairwise(points)
            if one.backing_off
        )
        return _path(bands, "fill:var(--second);opacity:.18") if bands else ""

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
            x, y = self._x(seconds), HEIGHT - BOTTOM + 14
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
