"""``info``: the contents of a store, and the state of its job; or all jobs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from bloomdupe.cli.table import table
from bloomdupe.cli.verb import Answer
from bloomdupe.crawl.progress.pace import duration, plural, size, when
from bloomdupe.crawl.state.rules import described
from bloomdupe.errors import BloomDupeError
from bloomdupe.jobs.reader import JobReader
from bloomdupe.jobs.state import RUNNING
from bloomdupe.jobs.view import slot_name
from bloomdupe.printable import near

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bloomdupe.jobs.job import Job
    from bloomdupe.jobs.state import WorkerFigures
    from bloomdupe.jobs.view import Description, View


def info(options: Namespace) -> Answer:
    """Read the last checkpoint; of a directory, those of all jobs in it."""
    job: Job = options.job
    if within := job.jobs_within:
        return _all(within)
    found = JobReader(job).describe()
    return Answer(table(_rows(found)), found.as_dict())


def _all(jobs: list[Path]) -> Answer:
    from bloomdupe.jobs import open_job

    rows: list[Sequence[str]]
    rows = [("job", "state", "age", "pages/min", "pages", "pending", "failed")]
    records: list[dict[str, Any]] = []
    unread = False
    for job in map(str, jobs):
        try:
            view = JobReader(open_job(job)).read()
        except (BloomDupeError, PermissionError) as error:
            unread = True
            rows.append((job, f"cannot be read: `bloomdupe verify {job}`", *[""] * 5))
            records.append({"job": job, "state": "cannot be read", "error": str(error)})
        else:
            rows.append((job, *_cells(view)))
            records.append({"job": job, **view.as_dict()})
    return Answer(table(rows, left=2), iter(records), int(unread))


def _cells(view: View) -> Sequence[str]:
    age = duration(max(0.0, time.time() - view.life.written_at))
    runs = view.state.name == RUNNING and view.rate is not None
    rate = f"{view.rate:,.0f}" if runs else ""
    failed = f"{len(view.failed.requests):,}"
    return view.state.text, age, rate, f"{view.pages:,}", f"{view.pending:,}", failed


# One job: the figures of the job below each other, then the filter


def _rows(found: Description) -> Iterator[tuple[str, str]]:
    filter_, view = found.filter, found.view
    workers = None if view is None else view.workers
    yield "store" if workers is None else "crawl", str(filter_.path)
    for name, value in found.identity.items():
        if value:  # BLOOMDUPE_EXACT may be off
            yield f"made for {name}", str(value)
    if view is not None:
        yield from _rows_of_job(view)
    yield "expected URLs (n), given", f"{filter_.capacity:,}"
    yield "URLs seen, counted", f"{filter_.keys:,}"
    yield "false-positive probability (p), given", f"{filter_.fpp:.3g}"
    yield "  calculated for now", f"{filter_.current_fpp:.3g}"
    yield "lost to false positives, expected", f"{filter_.expected_loss:.3g}"
    if workers is None:
        yield "layers", str(len(filter_.layers))
    yield "keys kept exactly", f"{filter_.exact_keys:,}"
    if filter_.disk_bytes:
        yield "disk", f"{filter_.disk_bytes:,} bytes"


def _rows_of_job(view: View) -> Iterator[tuple[str, str]]:
    yield "job", view.state.text
    if view.state.name == RUNNING and view.rate is not None:
        left = "no end in sight" if view.to_go is None else duration(view.to_go)
        left = "all slots rest" if view.all_rest else left
        yield "  pages a minute", f"{view.rate:,.0f}"
        yield "  time to go", left
    yield (
        "last checkpoint",
        f"{when(view.life.written_at)} (transaction {view.transaction:,})",
    )
    pending = "requests pending" + (" or in progress" if view.state.has_crawl else "")
    yield pending, f"{view.pending:,}, of {view.taken_in:,} ever added"
    if view.later:
        yield "  scheduled for later", f"{view.later:,}"
    yield from _counts(view)
    yield "slots with requests", f"{len(view.slots):,}"
    if view.at_rest:
        yield "  resting", f"{len(view.at_rest):,}"
    for name, requests in view.largest():
        slow = view.slowness(name)
        yield f"  {slot_name(name)}", f"{requests:,}" + (f", {slow}" if slow else "")
    for rule in view.rules.blocked:
        yield "blocked", described(rule)
    for slot in sorted(view.rules.paused):
        yield "paused", f"slot {slot_name(slot)}"
    for output in view.outputs:
        written = "" if output.bytes is None else f", {output.bytes:,} bytes"
        yield "output", f"{near(output.uri)}: {plural(output.items, 'item')}{written}"
    if view.workers is not None:
        yield from _rows_of_workers(view, view.workers)


def _counts(view: View) -> Iterator[tuple[str, str]]:
    totals = view.totals
    yield "pages done", f"{view.pages:,}"
    yield "items", f"{totals.items:,}"
    yield "requests failed", f"{len(view.failed.requests):,}"
    for cause, requests in view.failed.reasons.most_common():
        yield f"  {cause}", f"{requests:,}"
    together = f"{plural(totals.runs, 'run')} of {totals.seconds:,.0f} s together"
    yield "round", f"{view.round}, in {together}"
    if view.versions:
        yield "  last with", ", ".join(map(" ".join, view.versions.items()))


def _rows_of_workers(view: View, workers: WorkerFigures) -> Iterator[tuple[str, str]]:
    yield "workers", f"{workers.workers:,}"
    yield "partitions", f"{workers.partitions:,}"
    if view.unattended:
        yield "partitions without a worker", f"{view.unattended:,}"
    entries = plural(workers.output_entries, "entry", "entries")
    yield "output", f"{entries} in Redis, to be collected"
    limit = f", of {size(workers.memory_limit)}" if workers.memory_limit else ""
    used = f"{size(workers.memory_bytes)} used by all data{limit}"
    yield "memory of this Redis", used
