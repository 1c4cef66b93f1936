"""``info``: the contents of a store, and the state of its job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.cli.show.shared_rows import rows_of_shared
from bloomdupe.cli.store_argument import add_store, store_directory
from bloomdupe.cli.table import table, when
from bloomdupe.cli.verb import Verb
from bloomdupe.crawl.state.blocked import described
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.filter.opening import is_url
from bloomdupe.jobs.overview import Overview, overview

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from bloomdupe.filter.info import FilterInfo
    from bloomdupe.jobs.shared_overview import SharedOverview

__all__ = ["Info"]


class Found(NamedTuple):
    """The figures of the filter, the header of the store, and the state of the job."""

    filter: FilterInfo
    identity: dict[str, Any]
    job: Overview | None


class Info(Verb["Found | SharedOverview"]):
    """Reads the last checkpoint and shows its contents."""

    name = "info"
    help = "what a store holds, and how its job stands"
    description = (
        "What a store holds: parameters, URLs seen, false-positive probability,"
        " requests that wait, output files, and which process runs the job. Reads the"
        " last checkpoint; a crawl may be running. A crawl that workers share on Redis,"
        " or a filter there, is named by its URL, redis://host:6379/0#name."
    )
    example = "info crawls/site"

    def add_arguments(
        self, parser: argparse.ArgumentParser, jobdir: str | None
    ) -> None:
        """Add the store."""
        add_store(parser, jobdir, url="a crawl or a filter")

    def run(self, options: argparse.Namespace) -> Found | SharedOverview:
        """Read the store."""
        if is_url(options.store):
            return _on_redis(options.store)
        store = store_directory(options.store)
        with BloomFilter.open(store, readonly=True) as seen:
            info, identity = seen.info(), seen.identity
        return Found(info, identity, overview(store))

    def text(self, result: Found | SharedOverview) -> Iterable[str]:
        """Return the figures of the filter below each other; then the job."""
        if not isinstance(result, Found):
            return table(rows_of_shared(result))
        info, identity, job = result
        rows = [
            ("store", str(info.path)),
            *((f"made for {name}", str(value)) for name, value in identity.items()),
            ("expected URLs (n), given", f"{info.capacity:,}"),
            ("URLs seen, counted", f"{info.keys:,}"),
            ("  estimated from the fill", f"{info.estimated_keys:,.0f}"),
            ("false-positive probability (p), given", f"{info.fpp:.3g}"),
            ("  calculated for now", f"{info.current_fpp:.3g}"),
            ("  measured over the crawl", _measured(info)),
            ("new URLs dropped so far, expected", f"{info.expected_loss:.3g}"),
            ("layers", str(len(info.layers))),
            ("keys kept exactly", f"{info.exact_keys:,} (share {info.confirm:g})"),
        ]
        if not is_url(str(info.path)):
            rows += [
                ("keys in the journal", f"{info.journal_keys:,}"),
                ("disk", f"{info.disk_bytes:,} bytes"),
            ]
        if job is not None:
            rows += _rows_of(job)
        return table(rows)

    def json(self, result: Found | SharedOverview) -> dict[str, Any]:
        """Return all of it."""
        if not isinstance(result, Found):
            return result.as_dict()
        job = None if result.job is None else result.job.as_dict()
        return {**result.filter.as_dict(), "identity": result.identity, "job": job}


def _on_redis(url: str) -> Found | SharedOverview:
    from bloomdupe.jobs.shared_overview import filter_or_crawl, shared_overview

    with filter_or_crawl(url) as found:
        if isinstance(found, BloomFilter):
            return Found(found.info(), found.identity, None)
        return shared_overview(found)


def _measured(info: FilterInfo) -> str:
    if not info.trials:
        return "not measured (no keys are kept exactly: confirm is 0)"
    return (
        f"{info.measured_fpp:.3g} (95 %: {info.measured_low:.3g} to"
        f" {info.measured_high:.3g}; {info.false_positives:,} of"
        f" {info.trials:,})"
    )


def _rows_of(job: Overview) -> Iterator[tuple[str, str]]:
    yield "job", _state(job)
    yield (
        "last checkpoint",
        f"{when(job.checkpoint_at)} (transaction {job.transaction:,})",
    )
    running = job.process is not None
    waits = "requests waiting or under way" if running else "requests waiting"
    yield waits, f"{job.pending:,}, of {job.taken_in:,} ever taken in"
    if job.later:
        yield "  for a point in time", f"{job.later:,}"
    yield "pages done", f"{job.pages:,}"
    yield "items", f"{job.items:,}"
    yield "round", f"{job.round}, in {job.runs} runs of {job.seconds:,.0f} s together"
    yield "slots with requests", f"{job.slots:,}"
    for name, requests in job.largest:
        yield f"  {name}", f"{requests:,}"
    for rule in job.blocked:
        yield "blocked", described(rule)
    for output in job.outputs:
        size = "" if output.bytes is None else f", {output.bytes:,} bytes"
        yield "output", f"{_near(output.uri)}: {output.items:,} items{size}"


def _state(job: Overview) -> str:
    if job.process is not None:
        return f"in use by process {job.process or 'unknown'}"
    if job.half_imported:
        return "an import was interrupted: run it again"
    if job.last_run is None:
        return "not begun"
    if job.last_run == "open":
        return "not finished: the last run was killed"
    if job.last_run != "finished":
        return f"not finished: the last run ended: {job.last_run}"
    then = "" if job.finished_at is None else f" at {when(job.finished_at)}"
    new = ", and has requests again" if job.pending else ""
    return f"finished{then}{new}"


def _near(uri: str) -> str:
    """Return a path in the present folder without that folder."""
    try:
        return str(Path(uri).relative_to(Path.cwd()))
    except ValueError:
        return uri
