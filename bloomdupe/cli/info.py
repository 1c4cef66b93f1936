"""``info``: the contents of a store, and the state of its job; or all jobs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.cli.table import columns, table
from bloomdupe.cli.verb import Answer
from bloomdupe.crawl.progress.pace import duration, plural, size, when
from bloomdupe.crawl.state.rules import described
from bloomdupe.errors import BloomDupeError
from bloomdupe.jobs.overview import slot_name
from bloomdupe.jobs.state import RUNNING
from bloomdupe.jobs.worker_figures import PartitionedFilter
from bloomdupe.printable import near

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator
    from pathlib import Path

    from bloomdupe.jobs.job import Job
    from bloomdupe.jobs.overview import Overview, RunFigures
    from bloomdupe.jobs.view import Description, View
    from bloomdupe.jobs.worker_figures import WorkerFigures


class JobLine(NamedTuple):
    """A job in the table of a directory; the figures are None if it is unreadable."""

    job: str
    state: str
    state_text: str
    age: float | None = None
    """Seconds since the last checkpoint."""
    pages_per_minute: float | None = None
    """None: it does not run, or is too young."""
    pages: int | None = None
    pending: int | None = None
    failed: int | None = None


def info(options: Namespace) -> Answer:
    """Read the last checkpoint; of a directory, those of all jobs in it."""
    job: Job = options.job
    if within := job.jobs_within:
        lines = [_line_of(one) for one in within]
        unread = any(one.age is None for one in lines)
        head = ("job", "state", "age", "pages/min", "pages", "pending", "failed")
        shown = columns([head, *map(_cells, lines)], left=2)
        return Answer(shown, (one._asdict() for one in lines), int(unread))
    with job.reader() as reader:
        found = reader.describe()
    return Answer(table(_rows(found)), found.as_dict())


def _line_of(job: Path) -> JobLine:
    from bloomdupe.jobs import open_job

    try:
        with open_job(str(job)).reader() as reader:
            view = reader.read()
    except (BloomDupeError, PermissionError) as error:
        return JobLine(str(job), "cannot be read", str(error))
    state = view.job.state
    return JobLine(
        str(job),
        state.name,
        state.text,
        max(0.0, time.time() - view.read_at),
        view.rate if state.name == RUNNING else None,
        view.job.pages,
        view.job.pending,
        len(view.failed.requests),
    )


def _cells(one: JobLine) -> tuple[str, ...]:
    if one.age is None:
        return one.job, f"{one.state}: `bloomdupe verify {one.job}`", *[""] * 5
    rate = "" if one.pages_per_minute is None else f"{one.pages_per_minute:,.0f}"
    counts = (f"{count:,}" for count in (one.pages, one.pending, one.failed))
    return one.job, one.state_text, duration(one.age), rate, *counts


# One job: the figures of the job below each other, then the filter


def _rows(found: Description) -> Iterator[tuple[str, str]]:
    filter_, view, job = found.filter, found.view, found.job
    shared = isinstance(filter_, PartitionedFilter)
    shared = shared or (job is not None and job.workers is not None)
    yield "crawl" if shared else "store", str(filter_.path)
    for name, value in found.identity.items():
        if value:  # BLOOMDUPE_EXACT may be off
            yield f"made for {name}", str(value)
    if view is not None and job is not None:
        if job.workers is not None:
            grown = getattr(filter_, "grown_partitions", 0)
            more = f", {grown:,} grown" if grown else ""
            yield "partitions", f"{job.workers.partitions:,}{more}"
        yield from _rows_of_job(view, job)
    yield "expected URLs (n), given", f"{filter_.capacity:,}"
    yield "URLs seen, counted", f"{filter_.keys:,}"
    yield "false-positive probability (p), given", f"{filter_.fpp:.3g}"
    yield "  calculated for now", f"{filter_.current_fpp:.3g}"
    yield "lost to false positives, expected", f"{filter_.expected_loss:.3g}"
    if not shared and not isinstance(filter_, PartitionedFilter):
        yield "layers", str(len(filter_.layers))
        yield "keys kept exactly", f"{filter_.exact_keys:,}"
        if filter_.disk_bytes:
            yield "disk", f"{filter_.disk_bytes:,} bytes"


def _rows_of_job(view: View, job: Overview) -> Iterator[tuple[str, str]]:
    runs, workers = job.runs, job.workers
    yield "job", job.state.text
    if job.state.name == RUNNING and view.rate is not None:
        left = "no end in sight" if view.to_go is None else duration(view.to_go)
        left = "all slots rest" if job.all_rest else left
        yield "  pages a minute", f"{view.rate:,.0f}"
        yield "  time to go", left
    if runs is not None:
        yield (
            "last checkpoint",
            f"{when(runs.checkpoint_at)} (transaction {runs.transaction:,})",
        )
    with_leased = runs is not None and job.state.has_crawl
    pending = "requests pending" + (" or in progress" if with_leased else "")
    yield pending, f"{job.pending:,}, of {job.taken_in:,} ever added"
    if job.later:
        yield "  scheduled for later", f"{job.later:,}"
    yield from _counts(job)
    yield "slots with requests", f"{len(job.slots):,}"
    if job.at_rest:
        yield "  resting", f"{len(job.at_rest):,}"
    for name, requests in job.largest():
        slow = job.slowness(name)
        yield f"  {slot_name(name)}", f"{requests:,}" + (f", {slow}" if slow else "")
    for rule in job.blocked:
        yield "blocked", described(rule)
    if runs is not None:
        yield from _pauses_and_outputs(runs)
    if workers is not None:
        yield from _rows_of_workers(job, workers)


def _counts(job: Overview) -> Iterator[tuple[str, str]]:
    runs, workers = job.runs, job.workers
    if workers is not None and workers.leased is not None:
        yield "requests in progress", f"{workers.leased:,}"
        if workers.set_aside:
            yield "requests set aside", f"{workers.set_aside:,}"
            yield from (("", reason) for reason in workers.set_aside_reasons)
    yield "pages done", f"{job.pages:,}"
    yield "items", f"{job.totals.items:,}"
    yield "requests failed", f"{sum(job.failed.values()):,}"
    for cause, requests in job.failed.items():
        yield f"  {cause}", f"{requests:,}"
    if runs is not None:
        together = f"{plural(runs.runs, 'run')} of {runs.seconds:,.0f} s together"
        yield "round", f"{runs.round}, in {together}"
        if runs.versions:
            yield "  last with", ", ".join(map(" ".join, runs.versions.items()))
    elif workers is not None:
        yield "round", str(workers.round)


def _pauses_and_outputs(runs: RunFigures) -> Iterator[tuple[str, str]]:
    for slot in runs.paused:
        yield "paused", f"slot {slot_name(slot)}"
    for output in runs.outputs:
        written = "" if output.bytes is None else f", {output.bytes:,} bytes"
        yield "output", f"{near(output.uri)}: {plural(output.items, 'item')}{written}"


def _rows_of_workers(
    job: Overview, workers: WorkerFigures
) -> Iterator[tuple[str, str]]:
    yield "workers", f"{workers.workers:,}"
    if job.unattended:
        yield "partitions without a worker", f"{job.unattended:,}"
    entries = plural(workers.output_entries, "entry", "entries")
    yield "output", f"{entries} in Redis, to be collected"
    limit = f", of {size(workers.memory_limit)}" if workers.memory_limit else ""
    used = f"{size(workers.memory_bytes)} used by all data{limit}"
    yield "memory of this Redis", used
