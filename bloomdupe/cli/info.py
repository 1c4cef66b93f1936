"""``info``: the contents of a store, and the state of its job; or all jobs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from bloomdupe.cli.output import table
from bloomdupe.cli.verb import Answer
from bloomdupe.crawl.progress.pace import duration, plural, when
from bloomdupe.crawl.state.rules import described
from bloomdupe.errors import BloomDupeError
from bloomdupe.jobs.figures import figures
from bloomdupe.jobs.reader import JobReader
from bloomdupe.jobs.state import RUNNING
from bloomdupe.jobs.view import slot_name
from bloomdupe.printable import near

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bloomdupe.jobs.job import Job
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
    if filter_.disk_bytes and view is None:
        yield "disk", f"{filter_.disk_bytes:,} bytes"


def _rows_of_job(view: View) -> Iterator[tuple[str, str]]:
    yield "job", view.state.text
    at, number = when(view.life.written_at), view.transaction
    yield "last checkpoint", f"{at} (transaction {number:,})"
    for figure in figures(view):
        yield figure.name, ", ".join(one.text for one in (figure.value, *figure.more))
    if view.versions:
        yield "last with", ", ".join(map(" ".join, view.versions.items()))
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
