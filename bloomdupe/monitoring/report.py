"""Report: a job as one page of HTML that loads no other files."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.progress.history import KILLED
from bloomdupe.crawl.progress.line import pages_lost
from bloomdupe.crawl.progress.pace import duration, size
from bloomdupe.crawl.progress.rounds import OPEN
from bloomdupe.monitoring.charts import charts
from bloomdupe.monitoring.page import figure, in_figures, page, table, text, when

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bloomdupe.crawl.progress.history import Ran
    from bloomdupe.monitoring.view import View

__all__ = ["report"]

MOST_RUNS = 200
MOST_FAILURES = 100
"""Rows of the table, latest failures first."""

FIGURES: tuple[tuple[str, str], ...] = (
    ("job.pages", "pages done"),
    ("job.items", "items"),
    ("job.pending", "requests waiting"),
    ("job.later", "of these, for a point in time"),
    ("job.taken_in", "requests ever taken in"),
    ("job.slots", "slots with requests"),
    ("job.runs", "runs"),
    ("job.round", "round"),
    ("job.seconds", "seconds that it was running"),
    ("keys", "URLs seen"),
    ("capacity", "expected URLs (n)"),
    ("fpp", "false-positive probability (p), given"),
    ("current_fpp", "the same, calculated for now"),
    ("expected_loss", "new URLs dropped, expected number"),
    ("exact_keys", "keys kept exactly"),
    ("disk_bytes", "bytes of the store"),
)
"""Names in ``bloomdupe info --json``, and in words."""


def report(view: View, info: Mapping[str, Any]) -> str:
    """Return the page; ``info`` is the object of ``bloomdupe info --json``."""
    title = f"Crawl of {view.spider}"
    drawn = list(charts(view, info["layers"]))
    parts = [
        f"<h1>{text(title)}</h1>",
        f"<p>{text(_state(view))}</p>",
        f'<p class="note">{text(str(view.path))}, as of'
        f" {when(view.job.checkpoint_at)}</p>",
        '<div class="tiles">',
        *(f"<div>{name}<b>{text(value)}</b></div>" for name, value in _tiles(view)),
        "</div>",
    ]
    if not view.points:
        parts.append(
            "<p>There are no charts over time: the job was made by an earlier version,"
            " and has not run since.</p>"
        )
    parts += ['<div class="charts">', *map(figure, drawn), "</div>"]
    parts += _runs(view)
    parts += _failures(view)
    parts += in_figures(FIGURES, info)
    return page(title, parts)


def _state(view: View) -> str:
    job = view.job
    if view.running:
        return "It is running."
    if job.last_run == "finished":
        then = "" if job.finished_at is None else f" on {when(job.finished_at)}"
        return f"It was finished{then}."
    if job.last_run == OPEN:
        return "It was killed. The same command goes on with it."
    return f"It was stopped: {job.last_run}. The same command goes on with it."


def _tiles(view: View) -> Iterator[tuple[str, str]]:
    job, totals = view.job, view.totals
    yield "pages", f"{totals.pages:,}"
    yield "items", f"{totals.items:,}"
    yield "waiting", f"{job.pending:,}"
    yield "failed", f"{len(view.failed.requests):,}"
    yield "links dropped", f"{totals.duplicates:,}"
    yield "downloaded", size(totals.bytes)
    yield "running for", duration(job.seconds)
    yield "runs", f"{job.runs:,}"
    yield "kills", f"{sum(how == KILLED for _, how in _ended(view)):,}"
    if view.last is not None:
        yield "filter", f"{view.last.seen / view.capacity:.1%}"
        yield "lost by it", pages_lost(view.last.loss).replace("no page lost", "none")


def _ended(view: View) -> Iterator[tuple[Ran, str]]:
    """Yield runs, and how they ended."""
    for ran in view.runs:
        running = view.running and ran is view.runs[-1]
        how = ran.how
        if how == OPEN:
            how = "running" if running else KILLED
        yield ran, how


def _runs(view: View) -> Iterator[str]:
    if not view.runs:
        return
    points = view.points
    last = {point.run: point for point in points}
    # The counts at the next run's beginning are those at a killed run's end.
    done = dict(last)
    done.update((a.run, b) for a, b in pairwise(points) if a.run != b.run)
    first = {point.run: point for point in reversed(points)}
    rows = []
    for ran, how in list(_ended(view))[-MOST_RUNS:]:
        pages = ended = ""
        if ran.number in last:
            pages = f"{done[ran.number].pages - first[ran.number].pages:,}"
            ended = when(ran.ended or last[ran.number].time)
        kind = ' class="killed"' if how == KILLED else ""
        rows.append(
            f'<td class="number">{ran.number}</td><td>{when(ran.begun)}</td>'
            f"<td>{ended}</td><td{kind}>{text(how)}</td>"
            f'<td class="number">{pages}</td>'
        )
    yield "<h2>Runs</h2>"
    yield from table(("run", "begun", "ended, or last seen", "how", "pages"), rows)


def _failures(view: View) -> Iterator[str]:
    if not view.failed.requests:
        return
    yield "<h2>Failures</h2>"
    shown = view.failed.requests[:MOST_FAILURES]
    gone = f" {view.failed.left:,} older ones have left." if view.failed.left else ""
    yield (
        f'<p class="note">The last {len(shown):,} of'
        f" {len(view.failed.requests):,}.{gone}</p>"
    )
    yield from table(
        ("URL", "reason", "detail", "times", "last", "linked from"),
        (
            f'<td class="url">{text(one.url)}</td>'
            f"<td>{text(one.reason)}</td><td>{text(one.detail)}</td>"
            f'<td class="number">{one.times:,}</td><td>{when(one.time)}</td>'
            f'<td class="url">{text(one.parent or "")}</td>'
            for one in shown
        ),
    )
