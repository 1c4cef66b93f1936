"""``info``: the contents of a store, and the state of its job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.cli.show.jobs import JobLine, read_jobs, table_of
from bloomdupe.cli.table import table
from bloomdupe.cli.verb import Verb
from bloomdupe.crawl.progress.pace import duration, plural, size, when
from bloomdupe.crawl.state.rules import described
from bloomdupe.filter.info import FilterInfo
from bloomdupe.jobs.overview import Description, PartitionedFilter, slot_name
from bloomdupe.jobs.state import RUNNING
from bloomdupe.printable import near

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from bloomdupe.jobs.job_contract import Job
    from bloomdupe.jobs.overview import Overview, RunFigures, WorkerFigures


class Info(Verb["Description | list[JobLine]"]):
    """Reads the last checkpoint and shows its contents; of a directory, all jobs."""

    name = "info"
    help = (
        "the contents of a store, and the state of its job; or all jobs in a directory"
    )
    description = (
        "Show the contents of a store: parameters, URLs seen, false-positive"
        " probability, pending requests, output files, and which process runs the job."
        " Reads the last checkpoint; a crawl may be running. A crawl that workers share"
        " on Redis, or a filter there, is named by its URL, redis://host:6379/0#name."
        " Of a directory with jobs, show a line for each job, in directories in it,"
        " too; with --json, an object on each line."
    )
    example = "info crawls/site"
    needs = "describe"
    store_required = False

    def run(self, options: argparse.Namespace) -> Description | list[JobLine]:
        """Read the job, or all jobs in the directory."""
        job: Job = options.job
        return read_jobs(job.jobs_within) or job.describe()

    def text(self, result: Description | list[JobLine]) -> Iterable[str]:
        """Return the figures of the job below each other; then the filter."""
        if isinstance(result, list):
            return table_of(result)
        return table(_rows(result))

    def json(
        self, result: Description | list[JobLine]
    ) -> dict[str, Any] | Iterator[dict[str, Any]]:
        """Return all of it."""
        if isinstance(result, list):
            return (one._asdict() for one in result)
        return result.as_dict()


def _rows(found: Description) -> Iterator[tuple[str, str]]:
    info, job = found.filter, found.job
    kind = "crawl" if isinstance(info, PartitionedFilter) else "store"
    yield kind, str(info.path)
    for name, value in found.identity.items():
        yield f"made for {name}", str(value)
    if isinstance(info, PartitionedFilter) and job is not None and job.workers:
        grown = info.grown_partitions
        more = f", {grown:,} grown" if grown else ""
        yield "partitions", f"{len(job.workers.partitions):,}{more}"
    if job is not None:
        yield from _rows_of_job(found, job)
    yield from _rows_of_filter(info)


def _rows_of_filter(info: FilterInfo | PartitionedFilter) -> Iterator[tuple[str, str]]:
    whole = info if isinstance(info, FilterInfo) else None
    yield "expected URLs (n), given", f"{info.capacity:,}"
    yield "URLs seen, counted", f"{info.keys:,}"
    if whole is not None:
        yield "  estimated from the fill", f"{whole.estimated_keys:,.0f}"
    yield "false-positive probability (p), given", f"{info.fpp:.3g}"
    yield "  calculated for now", f"{info.current_fpp:.3g}"
    yield "lost to false positives, expected", f"{info.expected_loss:.3g}"
    if whole is not None:
        yield "layers", str(len(whole.layers))
        yield "keys kept exactly", f"{whole.exact_keys:,}"
    if whole is not None and whole.disk_bytes:
        yield "keys in the journal", f"{whole.journal_keys:,}"
        yield "disk", f"{whole.disk_bytes:,} bytes"


def _rows_of_job(found: Description, job: Overview) -> Iterator[tuple[str, str]]:
    runs, workers = job.runs, job.workers
    yield "job", job.state.text
    if job.state.name == RUNNING and found.rate is not None:
        left = "no end in sight" if found.to_go is None else duration(found.to_go)
        left = "all slots rest" if job.all_rest else left
        yield "  pages a minute", f"{found.rate:,.0f}"
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
    if workers is not None:
        yield from _counts_of_workers(workers)
    yield "pages done", f"{job.pages:,}"
    yield "items", f"{job.totals.items:,}"
    yield from _failures_and_round(job, runs, workers)
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


def _failures_and_round(
    job: Overview, runs: RunFigures | None, workers: WorkerFigures | None
) -> Iterator[tuple[str, str]]:
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


def _counts_of_workers(workers: WorkerFigures) -> Iterator[tuple[str, str]]:
    yield "requests in progress", f"{workers.leased:,}"
    if workers.aside:
        yield "requests set aside", f"{workers.aside:,}"
        yield from (("", reason) for reason in workers.reasons())


def _pauses_and_outputs(runs: RunFigures) -> Iterator[tuple[str, str]]:
    for slot in runs.paused:
        yield "paused", f"slot {slot_name(slot)}"
    for output in runs.outputs:
        written = "" if output.bytes is None else f", {output.bytes:,} bytes"
        yield "output", f"{near(output.uri)}: {plural(output.items, 'item')}{written}"


def _rows_of_workers(
    job: Overview, workers: WorkerFigures
) -> Iterator[tuple[str, str]]:
    yield "workers", f"{len(workers.alive):,}"
    for worker in workers.workers:
        gone = "" if worker.name in workers.alive else ", has not answered lately"
        share = plural(worker.partitions, "partition")
        yield f"  {worker.name}", f"{share}, {worker.leased:,} in progress{gone}"
    if job.unattended:
        yield "partitions without a worker", f"{job.unattended:,}"
    entries = plural(workers.entries, "entry", "entries")
    yield "output", f"{entries} in Redis, to be collected"
    limit = f", of {size(workers.memory_limit)}" if workers.memory_limit else ""
    yield "memory of this Redis", f"{size(workers.memory)} used by all data{limit}"
