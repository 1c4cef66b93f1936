"""Jobs: all jobs in a directory, a line each."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.cli.table import columns
from bloomdupe.crawl.progress.pace import duration
from bloomdupe.errors import BloomDupeError
from bloomdupe.jobs.on_disk.state_on_disk import StoreReader
from bloomdupe.jobs.state import RUNNING

if TYPE_CHECKING:
    from pathlib import Path


class JobLine(NamedTuple):
    """A job in the table; the figures are None if it cannot be read."""

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


def read_jobs(jobs: list[Path]) -> list[JobLine]:
    """Read the last checkpoint of each job; their crawls may be running."""
    return [_line_of(job) for job in jobs]


def table_of(jobs: list[JobLine]) -> list[str]:
    """Return a table of the jobs."""
    head = ("job", "state", "age", "pages/min", "pages", "pending", "failed")
    return columns([head, *map(_cells, jobs)], left=2)


def _line_of(job: Path) -> JobLine:
    try:
        view = StoreReader(job / "bloomdupe").read()
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
