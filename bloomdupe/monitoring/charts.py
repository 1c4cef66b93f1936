"""Charts: the history of a job and its counts, drawn. Needs matplotlib."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

from bloomdupe.crawl.progress.pace import rates
from bloomdupe.crawl.progress.rounds import OPEN
from bloomdupe.filter.sizing import PAGE_BITS
from bloomdupe.monitoring.drawing import BAD, FAINT, FIRST, GOOD, SECOND, Chart, drawing
from bloomdupe.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from matplotlib.axes import Axes

    from bloomdupe.crawl.progress.history import Point, Ran
    from bloomdupe.jobs.overview import WorkerFigures
    from bloomdupe.jobs.view import JobHistory, View
    from bloomdupe.monitoring.drawing import Maker

__all__ = ["NAMELESS", "charts"]

PARTS = 240
"""Points of a line, at most: the page stays small."""
MOST_MARKS = 60
"""Runs with marks at their beginnings and ends, the latest runs."""
MOST_BARS = 12
MOST_PARTITIONS = 256
"""Bars, largest partitions first."""
NAMELESS = "(no slot)"
"""The slot name of items of ``start()``."""
UNITS = ((172_800, 86_400, "days"), (7_200, 3_600, "hours"), (120, 60, "minutes"))


def charts(view: View, info: Mapping[str, Any]) -> Iterator[Chart]:
    """Yield all charts of a job; ``info`` is what ``bloomdupe info --json`` prints."""
    if view.history is not None:
        yield from _of_history(view, view.history, info["layers"])
    largest = {name or NAMELESS: n for name, n in view.job.largest(MOST_BARS)}
    yield _bars("Hosts", "Hosts with the most pending requests.", largest)
    if view.job.workers is not None:
        yield from _of_workers(view.job.workers)


def _of_history(
    view: View, history: JobHistory, layers: Sequence[Mapping[str, float]]
) -> Iterator[Chart]:
    if len(view.points) > 1:
        yield from _over_all_runs(view, history.runs)
    yield _filter(layers)
    totals = history.totals
    yield _bars(
        "Status codes",
        "Pages by the status of their response, over all runs.",
        {f"{code}": n for code, n in sorted(totals.statuses.items())},
    )
    yield _depths(totals.depths)
    yield _bars(
        "Failures by reason",
        "Failed requests that were not retried since.",
        dict(history.failed.reasons.most_common(MOST_BARS)),
        colour=BAD,
    )


def _of_workers(workers: WorkerFigures) -> Iterator[Chart]:
    most = sorted(workers.workers, key=lambda worker: -worker.leased)[:MOST_BARS]
    yield _bars(
        "Workers",
        "Requests in progress.",
        {worker.name: worker.leased for worker in most},
    )
    yield _partitions(workers)


# Lines over the time that the crawl was running


def _over_all_runs(view: View, runs: Sequence[Ran]) -> Iterator[Chart]:
    marks = "Dashed lines are kills, dotted ones the beginnings of other runs."
    with _over_time(view, runs) as (axes, chart):
        axes.plot(*_line(view, lambda point: point.pages), color=FIRST)
        yield chart("Pages", f"Pages done, over all runs. {marks}")
    with _over_time(view, runs) as (axes, chart):
        times, values = _rates(view)
        axes.fill_between(times, values, step="mid", color=FIRST, alpha=0.25, lw=0)
        axes.step(times, values, where="mid", color=FIRST)
        yield chart("Rate", "Pages a minute.")
    with _over_time(view, runs) as (axes, chart):
        axes.plot(*_line(view, lambda point: point.pending), color=FIRST)
        yield chart("Pending", "Pending requests.")
    with _over_time(view, runs) as (axes, chart):
        axes.plot(*_line(view, lambda point: point.slots), color=FIRST)
        yield chart(
            "Active hosts", "Slots with requests that are pending or in progress."
        )
    with _over_time(view, runs) as (axes, chart):
        skipped = _line(view, lambda point: point.duplicates)
        axes.plot(*skipped, color=SECOND, label="duplicates skipped")
        axes.plot(*_line(view, lambda point: point.seen), color=FIRST, label="new")
        axes.legend()
        yield chart(
            "Links", "New URLs, and links that were skipped because their URL was seen."
        )
    with _over_time(view, runs) as (axes, chart):
        axes.vlines(*_highest(view), color=FIRST)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_formatter(EngFormatter("s"))
        yield chart("Checkpoints", "The longest one of each stretch of time.")
    with _over_time(view, runs) as (axes, chart):
        memory = _line(view, lambda point: point.memory)
        axes.plot(*memory, color=FIRST, label="memory of the process")
        disk = _line(view, lambda point: point.disk)
        axes.plot(*disk, color=SECOND, label="store on the disk")
        axes.legend()
        axes.yaxis.set_major_formatter(EngFormatter("B"))
        yield chart("Memory and disk", "Bytes.")


@contextmanager
def _over_time(view: View, runs: Sequence[Ran]) -> Iterator[tuple[Axes, Maker]]:
    with drawing() as (axes, maker):
        whole = MaxNLocator(5, integer=True, min_n_ticks=1)
        axes.yaxis.set_major_locator(whole)
        size, unit = _unit(view)
        axes.set_xlabel(f"{unit} that the crawl was running")
        first: dict[int, float] = {}
        last: dict[int, float] = {}
        for point in view.points:
            first.setdefault(point.run, point.seconds)
            last[point.run] = point.seconds
        for ran in runs[-MOST_MARKS:]:
            if ran.number in first and ran.number != view.points[0].run:
                axes.axvline(first[ran.number] / size, color=GOOD, ls=":", lw=1.2)
            over = ran is not runs[-1] or not view.job.state.has_crawl
            if ran.how == OPEN and over and ran.number in last:
                axes.axvline(last[ran.number] / size, color=BAD, ls="--", lw=1.2)
        maker.lowest = 0.0
        yield axes, maker


def _unit(view: View) -> tuple[float, str]:
    seconds = view.points[-1].seconds
    for least, size, name in UNITS:
        if seconds >= least:
            return size, name
    return 1, "seconds"


def _line(
    view: View, value: Callable[[Point], float]
) -> tuple[list[float], list[float]]:
    """Return the points of a line, with a gap where a kill undid some of it."""
    size, _ = _unit(view)
    step = max(1, len(view.points) // PARTS)
    times, values = [], []
    for number, point in enumerate(view.points):
        after = view.points[number + 1] if number + 1 < len(view.points) else None
        edge = after is None or after.run != point.run
        if number % step == 0 or edge:
            times.append(point.seconds / size)
            values.append(float(value(point)))
        if edge:
            times.append(math.nan)
            values.append(math.nan)
    return times, values


def _rates(view: View) -> tuple[list[float], list[float]]:
    size, _ = _unit(view)
    running = [point._replace(time=point.seconds) for point in view.points]
    begin, end = running[0].time, running[-1].time
    parts = min(PARTS, len(running) - 1)
    step = (end - begin) / parts / size
    middles = [begin / size + (part + 0.5) * step for part in range(parts)]
    return middles, rates(running, begin, parts)


def _highest(view: View) -> tuple[list[float], list[float], list[float]]:
    """Return positions, lower and upper ends of lines: the longest checkpoints."""
    size, _ = _unit(view)
    step = max(1, len(view.points) // PARTS)
    stretches = [view.points[at : at + step] for at in range(0, len(view.points), step)]
    times = [stretch[0].seconds / size for stretch in stretches]
    heights = [max(point.checkpoint for point in stretch) for stretch in stretches]
    return times, [0.0] * len(times), heights


# Bars


def _bars(
    title: str, note: str, values: Mapping[str, int], *, colour: str = FIRST
) -> Chart:
    """Draw a bar for each name."""
    if not values:
        return Chart(title, note, "")
    with drawing() as (axes, chart):
        names = [printable(name) for name in values]
        names = [name if len(name) < 30 else f"{name[:28]}…" for name in names]
        drawn = axes.barh(range(len(names)), list(values.values()), color=colour)
        axes.bar_label(drawn, [f"{n:,}" for n in values.values()], padding=3)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.margins(x=0.15)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        return chart(title, note)


def _depths(depths: Mapping[str, int]) -> Chart:
    title, note = "Depth", "Pages by their number of links from a start page."
    if not depths:
        return Chart(title, note, "")
    with drawing() as (axes, chart):
        axes.bar([int(depth) for depth in depths], list(depths.values()), color=FIRST)
        axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
        axes.set_xlabel("links")
        return chart(title, note)


def _filter(layers: Sequence[Mapping[str, float]]) -> Chart:
    """Draw the share of bits that are set: measured, and as it is expected.

    Of a layer of m bits with k positions for each of n keys, 1 - exp(-kn/m) are set
    (Bloom, CACM 13, 1970; in pages, with n/m the same in each by expectation).
    """
    with drawing() as (axes, chart):
        places = range(len(layers))
        measured = [layer["fill"] for layer in layers]
        expected = [
            -math.expm1(-layer["hashes"] * layer["keys"] / (layer["pages"] * PAGE_BITS))
            for layer in layers
        ]
        full = [
            -math.expm1(
                -layer["hashes"] * layer["capacity"] / (layer["pages"] * PAGE_BITS)
            )
            for layer in layers
        ]
        axes.bar([n - 0.27 for n in places], measured, 0.25, color=FIRST, label="found")
        axes.bar(list(places), expected, 0.25, color=SECOND, label="expected")
        axes.bar([n + 0.27 for n in places], full, 0.25, color=FAINT, label="when full")
        axes.set_xticks(
            list(places),
            [f"layer {n}: {one['keys']:,} keys" for n, one in enumerate(layers)],
        )
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))
        axes.set_ylim(0, 0.75)
        axes.legend(ncols=3, loc="upper right")
        return chart("Filter", "Share of the bits that are set, in each layer.")


def _partitions(workers: WorkerFigures) -> Chart:
    """Draw the URLs in each partition: hosts differ in size, so partitions do."""
    with drawing() as (axes, chart):
        keys = sorted((one.keys for one in workers.partitions), reverse=True)
        keys = keys[:MOST_PARTITIONS]
        axes.bar(range(1, len(keys) + 1), keys, color=FIRST)
        first = workers.partitions[0].layers[0][0].capacity
        if keys[0] > first / 2:
            axes.axhline(first, color=BAD, ls="--", lw=1.2)
        axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
        chart.lowest = 0.0
        return chart(
            "Partitions",
            "URLs seen in each, the largest first. Above the dashed line, if there is"
            " one, a filter has grown.",
        )
