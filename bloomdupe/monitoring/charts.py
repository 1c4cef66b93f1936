"""Charts: the history of a job and its counts, drawn. Needs matplotlib."""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from matplotlib.ticker import EngFormatter, MaxNLocator

from bloomdupe.crawl.progress.pace import rates
from bloomdupe.crawl.progress.rounds import OPEN
from bloomdupe.monitoring.drawing import BAD, FIRST, GOOD, SECOND, Chart, drawing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from matplotlib.axes import Axes

    from bloomdupe.crawl.progress.history import Point
    from bloomdupe.jobs.view import View
    from bloomdupe.monitoring.drawing import Maker


PARTS = 240
"""Points of a line, at most: the page stays small."""
LEAST_STEP = 5.0
"""Seconds from one rate to the next, at least."""
MOST_MARKS = 60
"""Runs with marks at their beginnings and ends, the latest runs."""


def charts(view: View) -> Iterator[Chart]:
    """Yield all charts of a job."""
    if len(view.present) > 1:
        yield from _Lines(view).charts()
    if statuses := view.totals.statuses:
        yield _of_statuses(statuses)


class _Lines:
    """Charts over the time that the crawl was running."""

    def __init__(self, view: View) -> None:
        runs = view.runs
        self._of_process = view.workers is None
        self._points = view.present
        self._ticks = ticks(self._points)
        self._step = max(1, len(self._points) // PARTS)
        self._begun: list[float] = []
        self._killed: list[float] = []
        first: dict[int, float] = {}
        last: dict[int, float] = {}
        for point in self._points:
            first.setdefault(point.run, point.seconds)
            last[point.run] = point.seconds
        for ran in runs[-MOST_MARKS:]:
            if ran.number in first and ran.number != self._points[0].run:
                self._begun.append(first[ran.number])
            over = ran is not runs[-1] or not view.state.has_crawl
            if ran.how == OPEN and over and ran.number in last:
                self._killed.append(last[ran.number])

    def charts(self) -> Iterator[Chart]:
        """Yield them, the most important first."""
        with self._axes() as (axes, chart):
            self._rest_band(axes)
            times, values = self._rates()
            axes.fill_between(times, values, step="mid", color=FIRST, alpha=0.25, lw=0)
            axes.step(times, values, where="mid", color=FIRST)
            yield chart("Rate", "; ".join(["Pages a minute", *self._marks]) + ".")
        yield self._plotted(
            "Pending",
            "Pending requests that are not scheduled for later.",
            ("pending", FIRST, ""),
        )
        with self._axes() as (axes, chart):
            active = self._line(lambda point: point.slots)
            axes.plot(*active, color=FIRST, label="active")
            if self._rests:
                times, resting = self._line(lambda point: point.resting)
                axes.fill_between(times, resting, color=SECOND, alpha=0.5, lw=0)
                axes.plot(times, resting, color=SECOND, label="resting")
                axes.legend()
            yield chart(
                "Hosts over time",
                "Hosts with requests that are pending or in progress.",
            )
        yield self._plotted(
            "Failed",
            "Failed requests that were not retried since.",
            ("failed", BAD, ""),
        )
        yield self._plotted(
            "Links",
            "New URLs, and links whose URL was seen before.",
            ("duplicates", SECOND, "duplicates skipped"),
            ("seen", FIRST, "new"),
        )
        if not self._of_process:
            memory = ("memory", FIRST, "")
            yield self._plotted(
                "Memory", "Bytes of all data in Redis.", memory, unit="B"
            )
            return
        yield self._plotted(
            "Memory and disk",
            "Bytes.",
            ("memory", FIRST, "memory of the process"),
            ("disk", SECOND, "store on the disk"),
            unit="B",
        )

    def _plotted(
        self, title: str, note: str, *lines: tuple[str, str, str], unit: str = ""
    ) -> Chart:
        """Plot fields of the points, each in a colour and with a label, or without."""
        with self._axes() as (axes, chart):
            for field, colour, label in lines:
                axes.plot(*self._line(attrgetter(field)), color=colour, label=label)
            if lines[0][2]:
                axes.legend()
            if unit:
                axes.yaxis.set_major_formatter(EngFormatter(unit))
            return chart(title, note)

    @property
    def _rests(self) -> bool:
        return any(point.resting for point in self._points)

    @property
    def _marks(self) -> Iterator[str]:
        """Explain the bands and the vertical lines, if there are any."""
        if self._rests:
            yield "bands: a host rested"
        if self._begun:
            yield "dotted lines: a run began"
        if self._killed:
            who = "process was" if self._of_process else "workers were"
            yield f"dashed lines: the {who} killed"

    @contextmanager
    def _axes(self) -> Iterator[tuple[Axes, Maker]]:
        with drawing() as (axes, maker):
            whole = MaxNLocator(5, integer=True, min_n_ticks=1)
            axes.yaxis.set_major_locator(whole)
            axes.set_xticks(
                [tick.seconds for tick in self._ticks],
                [tick.text for tick in self._ticks],
            )
            first, last = self._points[0].seconds, self._points[-1].seconds
            # Of runs with one point each, all points are at the same second.
            axes.set_xlim(first, max(last, first + 1))
            for begun in self._begun:
                axes.axvline(begun, color=GOOD, ls=":", lw=1.2)
            for killed in self._killed:
                axes.axvline(killed, color=BAD, ls="--", lw=1.2)
            maker.lowest = 0.0
            yield axes, maker

    def _rest_band(self, axes: Axes) -> None:
        """Shade the times when a slot rested, over the whole height."""
        if self._rests:
            times, resting = self._line(lambda point: point.resting)
            axes.fill_between(
                times,
                0,
                1,
                where=[count > 0 for count in resting],
                step="post",
                transform=axes.get_xaxis_transform(),
                color=SECOND,
                alpha=0.18,
                lw=0,
            )

    def _line(self, value: Callable[[Point], float]) -> tuple[list[float], list[float]]:
        """Return the points of a line, with a gap where a kill undid some of it."""
        points = self._points
        times, values = [], []
        for number, point in enumerate(points):
            after = points[number + 1] if number + 1 < len(points) else None
            edge = after is None or after.run != point.run
            if number % self._step == 0 or edge:
                times.append(point.seconds)
                values.append(float(value(point)))
            if edge:
                times.append(math.nan)
                values.append(math.nan)
        return times, values

    def _rates(self) -> tuple[list[float], list[float]]:
        running = [point._replace(time=point.seconds) for point in self._points]
        begin, end = running[0].time, running[-1].time
        parts = max(1, min(PARTS, int((end - begin) / LEAST_STEP)))
        step = (end - begin) / parts
        middles = [begin + (part + 0.5) * step for part in range(parts)]
        return middles, rates(running, begin, parts)


def _of_statuses(statuses: Mapping[str, int]) -> Chart:
    pages = dict(sorted(statuses.items()))
    with drawing() as (axes, chart):
        drawn = axes.barh(range(len(pages)), list(pages.values()), color=FIRST)
        axes.bar_label(drawn, [f"{n:,}" for n in pages.values()], padding=3)
        axes.set_yticks(range(len(pages)), list(pages))
        axes.invert_yaxis()
        axes.margins(x=0.2)
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        return chart(
            "Status codes", "Pages by the status of their response, over all runs."
        )


MINUTE, HOUR, DAY = 60, 3_600, 86_400
STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(minutes * MINUTE for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * HOUR for hours in (1, 2, 3, 6, 12)),
    *(days * DAY for days in (1, 2, 7, 14, 28, 56, 112, 224)),
)
"""Seconds between two ticks."""
MOST = 5
"""Ticks, if any step of ``STEPS`` makes so few."""


class Tick(NamedTuple):
    """A tick of the axis."""

    seconds: float
    """Seconds that the crawl was running."""
    text: str


def ticks(points: Sequence[Point]) -> list[Tick]:
    """Return the ticks for these points: at full minutes, hours or days, if any fit.

    Between two runs nothing happens, be it for a second or for a week. So an axis has
    the seconds that the crawl was running, and its ticks have the local time, as in the
    log.
    """
    stretches = list(_stretches(points))
    for step in STEPS:
        found = [
            tick for first, last in stretches for tick in _within(first, last, step)
        ]
        if len(found) <= MOST:
            break
    if len(found) < 2:
        found = [(point.seconds, point.time) for point in (points[0], points[-1])]
        step = 1
    return list(_named(found, step))


def _stretches(points: Sequence[Point]) -> Iterator[tuple[Point, Point]]:
    """Yield the first and the last point of each run."""
    first = last = points[0]
    for point in points:
        if point.run != last.run:
            yield first, last
            first = point
        last = point
    yield first, last


def _within(first: Point, last: Point, step: int) -> Iterator[tuple[float, float]]:
    """Yield seconds and Unix time of the ticks in a run."""
    zone = time.localtime(first.time).tm_gmtoff
    length = last.time - first.time
    moment = math.ceil((first.time + zone) / step) * step - zone
    while moment <= last.time:
        share = (moment - first.time) / length if length else 0.0
        yield first.seconds + share * (last.seconds - first.seconds), moment
        moment += step


def _named(found: list[tuple[float, float]], step: int) -> Iterator[Tick]:
    """Name the ticks, with the date where a new day begins."""
    clock = "%H:%M:%S" if step < MINUTE else "%H:%M"
    before = ""
    for seconds, moment in found:
        local = time.localtime(moment)
        date = time.strftime("%b %d", local)
        text = date if step >= DAY else time.strftime(clock, local)
        if step < DAY and date != before:
            text += f"\n{date}"
        before = date
        yield Tick(seconds, text)
