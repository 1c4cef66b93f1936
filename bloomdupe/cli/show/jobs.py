"""``jobs``: all jobs in a directory, a line each."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.cli.output import warn
from bloomdupe.cli.table import columns
from bloomdupe.cli.verb import Verb
from bloomdupe.crawl.progress.pace import duration
from bloomdupe.errors import BloomDupeError, SettingError
from bloomdupe.filter.opening import is_url
from bloomdupe.jobs.on_disk.job_on_disk import jobs_in
from bloomdupe.jobs.on_disk.state_on_disk import StoreReader
from bloomdupe.jobs.state import RUNNING

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable, Iterator


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


class Jobs(Verb["list[JobLine]"]):
    """Reads the last checkpoint of each job."""

    name = "jobs"
    help = "a table of all jobs in a directory"
    description = (
        "List the jobs in a directory, and in its directories: state, time since the"
        " last checkpoint, pages a minute, pages, pending and failed requests. Crawls"
        " may be running. With --json, print an object on each line."
    )
    example = "jobs crawls"

    def add_store(self, parser: ArgumentParser, jobdir: str | None) -> None:
        """Add the directory."""
        default = None if jobdir is None else str(Path(jobdir).parent)
        parser.add_argument(
            "directory",
            nargs="?" if default else None,
            default=default,
            help="the directory" + (f" (default: {default})" if default else ""),
        )

    def run(self, options: Namespace) -> list[JobLine]:
        """Read all jobs."""
        if is_url(options.directory):
            raise SettingError("this lists directories: `bloomdupe info` takes a URL")
        directory = Path(options.directory)
        found = [_line_of(job) for job in jobs_in(directory)]
        if not found:
            warn(f"{directory}: there is no job in it")
        return found

    def text(self, result: list[JobLine]) -> Iterable[str]:
        """Return a table; nothing if there are no jobs."""
        if not result:
            return []
        head = ("job", "state", "age", "pages/min", "pages", "pending", "failed")
        return columns([head, *map(_cells, result)], left=2)

    def json(self, result: list[JobLine]) -> Iterator[dict[str, Any]]:
        """Yield an object for each job."""
        return (one._asdict() for one in result)


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
