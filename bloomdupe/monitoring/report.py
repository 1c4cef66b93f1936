"""Report: a job as one page of HTML that loads no other files."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.progress.line import pages_lost
from bloomdupe.crawl.progress.pace import duration, size, when
from bloomdupe.crawl.progress.rounds import OPEN
from bloomdupe.jobs.overview import MOST_SLOTS
from bloomdupe.jobs.state import KILLED, RUNNING, SILENT, STOPPED
from bloomdupe.monitoring.charts import NAMELESS, charts
from bloomdupe.monitoring.page import figure, in_figures, page, table, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bloomdupe.crawl.progress.history import Ran
    from bloomdupe.jobs.overview import Overview, WorkerFigures
    from bloomdupe.jobs.state import State
    from bloomdupe.jobs.view import FailedRequests, View

__all__ = ["report"]

MOST_RUNS = 200
MOST_FAILURES = 100
"""Rows of the table, latest failures first."""

FIGURES: tuple[tuple[str, str], ...] = (
    ("job.done", "requests done"),
    ("job.pages", "pages done"),
    ("job.items", "items"),
    ("job.pending", "pending requests"),
    ("job.later", "of these, scheduled for later"),
    ("job.leased", "requests in progress"),
    ("job.taken_in", "requests ever added"),
    ("job.slots", "slots with requests"),
    ("job.partitions", "partitions"),
    ("job.unowned_partitions", "of these, without a worker"),
    ("job.output_entries", "entries of output to be collected"),
    ("job.memory_bytes", "bytes of all data in this Redis"),
    ("job.runs", "runs"),
    ("job.round", "round"),
    ("job.seconds", "seconds that it was running"),
    ("keys", "URLs seen"),
    ("capacity", "expected URLs (n)"),
    ("fpp", "false-positive probability (p), given"),
    ("current_fpp", "the same, calculated for now"),
    ("expected_loss", "new URLs lost to false positives, expected number"),
    ("grown_partitions", "partitions whose filters have grown"),
    ("exact_keys", "keys kept exactly"),
    ("disk_bytes", "bytes of the store"),
)
"""Names in ``bloomdupe info --json``, and in words; a job lacks some of them."""
GOES_ON = "The same command goes on with it."
REMEDIES = {
    STOPPED: GOES_ON,
    KILLED: GOES_ON,
    SILENT: (
        "The process is there, but a callback, a pipeline or an extension does not"
        f" return. Nothing is lost if you kill it. {GOES_ON}"
    ),
}
NO_HISTORY = (
    "Workers share this crawl on Redis, which keeps no history of it: there are no"
    " charts over time, no runs, status codes, depths and failed requests."
)


def report(view: View, info: Mapping[str, Any]) -> str:
    """Return the page; ``info`` is the object of ``bloomdupe info --json``."""
    title = f"Crawl of {view.spider}"
    drawn = list(charts(view, info))
    tiles = [*_counts(view), *_of_filter(view, info), *_of_redis(view)]
    return page(
        title,
        [
            f"<h1>{text(title)}</h1>",
            f"<p>{text(_verdict(view.job.state))}</p>",
            f'<p class="note">{text(view.place)}, as of {when(view.read_at)}</p>',
            '<div class="tiles">',
            *(f"<div>{name}<b>{text(value)}</b></div>" for name, value in tiles),
            "</div>",
            *_missing(view),
            '<div class="charts">',
            *map(figure, drawn),
            "</div>",
            *_tables(view),
            *in_figures(FIGURES, info),
        ],
    )


def _verdict(state: State) -> str:
    """Return the state in words, and the remedy if it needs one."""
    text = f"{state.text[0].upper()}{state.text[1:]}."
    return f"{text} {REMEDIES[state.name]}" if state.name in REMEDIES else text


def _missing(view: View) -> Iterator[str]:
    """Say why there are no charts over time, if there are none."""
    if view.history is None:
        yield f'<p class="note">{NO_HISTORY}</p>'
    elif not view.points:
        yield (
            "<p>There are no charts over time: the job was made by an earlier version,"
            " and has not run since.</p>"
        )


def _counts(view: View) -> Iterator[tuple[str, str]]:
    job, history = view.job, view.history
    yield "pages", f"{job.pages:,}"
    if job.runs is not None:
        yield "items", f"{job.runs.items:,}"
    yield "pending", f"{job.pending:,}"
    if job.workers is not None:
        yield "in progress", f"{job.workers.leased:,}"
        yield "hosts with pending requests", f"{len(job.slots):,}"
        yield "workers", f"{len(job.workers.alive):,}"
        yield "partitions", f"{len(job.workers.partitions):,}"
    if history is not None:
        yield "failed", f"{len(history.failed.requests):,}"
        yield "duplicates skipped", f"{history.totals.duplicates:,}"
        yield "downloaded", size(history.totals.bytes)
    if job.runs is not None:
        yield "running for", duration(job.runs.seconds)
        yield "runs", f"{job.runs.runs:,}"
    if history is not None:
        kills = sum(how == KILLED for _, how in _ended(history.runs, job))
        yield "kills", f"{kills:,}"


def _of_filter(view: View, info: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    last = view.last
    if last is not None:
        yield "filter", f"{last.seen / view.capacity:.1%}"
        lost = info["expected_loss"] if view.history is None else last.loss
        yield "lost by it", pages_lost(lost).replace("no page lost", "none")


def _of_redis(view: View) -> Iterator[tuple[str, str]]:
    workers = view.job.workers
    if workers is not None:
        yield "output to collect", f"{workers.entries:,}"
        yield "memory of Redis", size(workers.memory)


def _ended(runs: Sequence[Ran], job: Overview) -> Iterator[tuple[Ran, str]]:
    """Yield runs, and how they ended."""
    for ran in runs:
        how = ran.how
        if how == OPEN:
            how = RUNNING if job.state.has_crawl and ran is runs[-1] else KILLED
        yield ran, how


def _tables(view: View) -> Iterator[str]:
    """Yield the tables: of the history, or else of the workers and hosts."""
    if view.history is not None:
        yield from _runs(view, view.history.runs)
        yield from _failed(view.history.failed)
    if view.job.workers is not None:
        yield from _workers(view.job.workers)
        yield from _slots(view.job)


def _runs(view: View, runs: Sequence[Ran]) -> Iterator[str]:
    if not runs:
        return
    points = view.points
    last = {point.run: point for point in points}
    # The counts at the next run's beginning are those at a killed run's end.
    done = dict(last)
    done.update((a.run, b) for a, b in pairwise(points) if a.run != b.run)
    first = {point.run: point for point in reversed(points)}
    rows = []
    for ran, how in list(_ended(runs, view.job))[-MOST_RUNS:]:
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


def _failed(failed: FailedRequests) -> Iterator[str]:
    if not failed.requests:
        return
    yield "<h2>Failed requests</h2>"
    shown, count = failed.requests[:MOST_FAILURES], len(failed.requests)
    gone = f" {failed.left:,} older ones were removed." if failed.left else ""
    yield f'<p class="note">The last {len(shown):,} of {count:,}.{gone}</p>'
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


def _workers(workers: WorkerFigures) -> Iterator[str]:
    if not workers.workers:
        return
    yield "<h2>Workers</h2>"
    yield from table(
        ("worker", "partitions", "in progress", ""),
        (
            f"<td>{text(worker.name)}</td>"
            f'<td class="number">{worker.partitions:,}</td>'
            f'<td class="number">{worker.leased:,}</td>'
            + (
                "<td>alive</td>"
                if worker.name in workers.alive
                else '<td class="killed">has not answered lately</td>'
            )
            for worker in workers.workers
        ),
    )


def _slots(job: Overview) -> Iterator[str]:
    if not job.slots:
        return
    shown = job.largest(MOST_SLOTS)
    yield "<h2>Hosts</h2>"
    yield (
        f'<p class="note">The {len(shown):,} with the most pending requests, of'
        f" {len(job.slots):,}.</p>"
    )
    yield from table(
        ("slot", "pending"),
        (
            f'<td class="url">{text(slot or NAMELESS)}</td>'
            f'<td class="number">{requests:,}</td>'
            for slot, requests in shown
        ),
    )
