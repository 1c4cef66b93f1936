"""The verbs that show a job, or the figures of a filter: info, top, report and size."""

from __future__ import annotations

import math
import os
import re
import sys
import time
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from bloomdupe.cli.output import table, write
from bloomdupe.cli.verbs import Answer, verb
from bloomdupe.crawl.progress.pace import duration, plural, when
from bloomdupe.crawl.progress.rounds import versions_in
from bloomdupe.crawl.state.rules import described
from bloomdupe.errors import BloomDupeError, SettingError, shown
from bloomdupe.filter import sizing
from bloomdupe.filter.layer import most_memory
from bloomdupe.jobs.figures import figures
from bloomdupe.jobs.view import RUNNING, slot_name
from bloomdupe.printable import near
from bloomdupe.store.files import write_file

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

    from bloomdupe.filter.contents import FilterInfo
    from bloomdupe.jobs.job import Job
    from bloomdupe.jobs.view import View


@verb("info crawls/site", store_required=False)
def info(options: Namespace) -> Answer:
    """Show a store, and the state of its job, as of the last checkpoint.

    A crawl may run. A crawl on Redis, or a filter there, is named by its URL,
    redis://host:6379/0#name. Of a directory, show a line for each job; the exit code is
    1 if any of them cannot be read.
    """
    job: Job = options.job
    if within := job.jobs_within:
        return _all(within)
    filter_, identity, view = job.describe()
    record = {**filter_.as_dict(), "identity": identity}
    record["job"] = None if view is None else view.as_dict()
    return Answer(table(_rows(filter_, identity, view)), record)


def _all(jobs: Sequence[Job]) -> Answer:
    rows: list[Sequence[str]]
    rows = [("job", "state", "age", "pages/min", "pages", "pending", "failed")]
    records: list[dict[str, Any]] = []
    unread = False
    for one in jobs:
        job = one.named
        try:
            view = one.read()
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


def _rows(
    filter_: FilterInfo, identity: dict[str, Any], view: View | None
) -> Iterator[tuple[str, str]]:
    workers = None if view is None else view.life.workers
    yield "store" if workers is None else "crawl", str(filter_.path)
    for name, value in identity.items():
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
    yield "exact keys", f"{filter_.exact_keys:,}"
    if filter_.disk_bytes and view is None:
        yield "disk", f"{filter_.disk_bytes:,} bytes"


def _rows_of_job(view: View) -> Iterator[tuple[str, str]]:
    yield "job", view.state.text
    at, number = when(view.life.written_at), view.transaction
    yield "last checkpoint", f"{at} (transaction {number:,})"
    for figure in figures(view):
        yield figure.name, ", ".join(one.text for one in (figure.value, *figure.more))
    if versions := versions_in(view.notes):
        yield "last with", ", ".join(map(" ".join, versions.items()))
    for name, requests in view.largest():
        slow = view.slowness(name)
        yield f"  {slot_name(name)}", f"{requests:,}" + (f", {slow}" if slow else "")
    for rule in view.rules.blocked:
        yield "blocked", described(rule)
    for slot in sorted(view.rules.paused):
        yield "paused", f"slot {slot_name(slot)}"
    for output in view.outputs:
        size = output["bytes"]
        written = "" if size is None else f", {size:,} bytes"
        items = plural(output["items"], "item")
        yield "output", f"{near(output['uri'])}: {items}{written}"


@verb("top crawls/site", "--interval", store_required=False)
def top(options: Namespace) -> Answer:
    """Show a job in the terminal, refreshed, from its last checkpoints.

    Keys: q quits, s sorts the slots in another way. Without a terminal, the job is
    shown once.
    """
    if not 0.1 <= options.interval <= 3_600:
        raise SettingError(
            f"--interval {options.interval:g}: expected seconds from 0.1 to 3600"
        )
    job: Job = options.job
    if options.json:
        return Answer((), job.read().as_dict())
    from bloomdupe.monitoring.top import follow, screen

    if _in_terminal():
        return Answer((), follow(job, options.interval).as_dict())
    view = job.read()
    *lines, _ = screen(view, get_terminal_size())  # without the keys
    return Answer(lines, view.as_dict())


def _in_terminal() -> bool:
    """Whether there is a terminal with a screen that can be refreshed."""
    return os.environ.get("TERM") != "dumb" and all(
        file is not None and file.isatty() for file in (sys.stdout, sys.stdin)
    )


@verb("report crawls/site -o report.html", "-o --output", store_required=False)
def report(options: Namespace) -> Answer:
    """Write one page that loads no other files, about the job at its last checkpoint.

    A crawl may be running. An existing page is replaced when the new page is complete.
    """
    from bloomdupe.monitoring.report import report as page_of

    data = page_of(options.job.read()).encode()
    record = {"page": options.output, "bytes": len(data)}
    if options.output == "-":
        if options.json:
            raise SettingError("--output -: --json needs a file for the page")
        write(data)
        return Answer((), record)
    target = Path(options.output)
    if target.is_dir():
        raise SettingError(f"--output {target}: it is a directory; name a file")
    try:
        write_file(target, [data], mode=0o666)
    except OSError as error:
        raise BloomDupeError(f"--output {target}: {error.strerror}") from error
    return Answer([f"{options.output}: {len(data):,} bytes"], record)


FIGURES = (
    ("expected URLs (n)", "{urls:,}"),
    ("false-positive probability (p), given", "{fpp_given:.3g}"),
    ("  calculated", "{fpp_calculated:.3g}"),
    ("bits per key (m/n)", "{bits_per_key:.2f}"),
    ("  least possible for that p", "{bits_per_key_optimal:.2f}"),
    ("hashes (k)", "{hashes}"),
    ("share of bits set", "{fill:.1%}"),
    ("memory", "{memory_bytes:,} bytes"),
    ("  with BLOOMDUPE_FILTER_MEMORY = 0", "{memory_bytes_mapped:,} bytes"),
    ("disk, compacted", "{disk_bytes:,} bytes"),
)
"""Names and figures, in the order in which they are printed."""

AMOUNT = re.compile(r"([0-9_.]+(?:e[0-9]+)?)\s*([KMGT]?)", re.I)


def amount(text: str) -> int:
    """Read a number of URLs: ``10_000_000``, ``1e7``, ``10M``."""
    match = AMOUNT.fullmatch(text.strip())
    try:
        power = " KMGT".index(match[2].upper() or " ") if match else 0
        number = float(match[1]) * 1000**power if match else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not number <= sizing.MOST_KEYS:
        raise SettingError(
            f"--urls {shown(text)} is not a number such as 10000000, 1e7 or 10M"
        )
    return sizing.check_capacity(int(number), "--urls")


@verb("size --urls 10M --fpp 1e-6", "--urls", "--fpp", on=())
def size(options: Namespace) -> Answer:
    """Calculate the memory and disk that a number of URLs and a probability need.

    It is the probability of a false positive: that a new URL is called seen.
    """
    capacity = amount(options.urls)
    fpp = sizing.check_fpp(options.fpp, "--fpp")
    shape = sizing.layer_geometry(capacity, fpp, 0)
    found: dict[str, Any] = {
        "urls": capacity,
        "fpp_given": fpp,
        "fpp_calculated": shape.rate(capacity),
        "bits_per_key_optimal": sizing.optimal_bits_per_key(fpp),
        "bits_per_key": shape.bits_per_key,
        "hashes": shape.hashes,
        "blocks": shape.blocks,
        "memory_bytes": shape.memory,
        "memory_bytes_mapped": most_memory(shape),
        "disk_bytes": shape.bits // 8,
        "fill": shape.fill(capacity),
    }
    return Answer(table((name, text.format(**found)) for name, text in FIGURES), found)
