"""The verbs that only read: info, top, report, size, list and check."""

from __future__ import annotations

import os
import sys
import time
from base64 import b64encode
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, TypeAlias

from bloomdupe.cli.output import table, warn
from bloomdupe.cli.verbs import FAILED, REQUESTS, SELECTION, Answer, verb
from bloomdupe.crawl.progress.pace import duration, plural, when
from bloomdupe.crawl.progress.rounds import VERSIONS
from bloomdupe.crawl.state.failures import Failure
from bloomdupe.crawl.state.rules import described
from bloomdupe.errors import BloomDupeError, SettingError
from bloomdupe.filter import sizing
from bloomdupe.filter.layer import most_memory
from bloomdupe.jobs.held import Problems
from bloomdupe.jobs.listed import ListedRequest, Selection
from bloomdupe.jobs.view import RUNNING, slot_name
from bloomdupe.monitoring.figures import figures
from bloomdupe.printable import near
from bloomdupe.settings import check_integer, check_reasons, check_seconds
from bloomdupe.store.files import write_file

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator, Sequence

    from bloomdupe.jobs.job import Job
    from bloomdupe.jobs.listed import FoundUrl
    from bloomdupe.jobs.view import View

    Rows: TypeAlias = Iterator[tuple[str, str]]
    """Names and figures, to be printed in this order."""
    Listed: TypeAlias = ListedRequest | Failure


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
    return Answer(table(_rows(record, view)), record)


def _all(jobs: Iterable[Job]) -> Answer:
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
            rows.append((job, *_summary(view)))
            records.append({"job": job, **view.as_dict()})
    return Answer(table(rows), iter(records), int(unread))


def _summary(view: View) -> Sequence[str]:
    age = duration(max(0.0, time.time() - view.life.written_at))
    runs = view.state.name == RUNNING and view.rate is not None
    rate = f"{view.rate:,.0f}" if runs else ""
    counts = view.pages, view.pending, len(view.failed.requests)
    return view.state.text, age, rate, *map("{:,}".format, counts)


OF_FILTERS = {
    "expected URLs (n), given": "{capacity:,}",
    "URLs seen, counted": "{keys:,}",
    "false-positive probability (p), given": "{fpp:.3g}",
    "  calculated for now": "{current_fpp:.3g}",
    "lost to false positives, expected": "{expected_loss:.3g}",
    "exact keys": "{exact_keys:,}",
}
"""Names of figures, in the order in which they are printed, and how they are."""


def _figures(names: dict[str, str], record: dict[str, Any]) -> Rows:
    """Yield figures of a record, as they are printed."""
    yield from ((name, text.format(**record)) for name, text in names.items())


def _rows(record: dict[str, Any], view: View | None) -> Rows:
    """Yield the figures of the job below each other, then those of the filter."""
    is_shared = view is not None and view.life.workers is not None
    yield "crawl" if is_shared else "store", str(record["path"])
    for name, value in record["identity"].items():
        if value:  # BLOOMDUPE_EXACT may be off
            yield f"made for {name}", str(value)
    if view is not None:
        yield from _rows_of_job(view)
    yield from _figures(OF_FILTERS, record)
    if not is_shared:
        yield "layers", str(len(record["layers"]))
    if record["disk_bytes"] and view is None:
        yield "disk", f"{record['disk_bytes']:,} bytes"


def _rows_of_job(view: View) -> Rows:
    yield "job", view.state.text
    at, number = when(view.life.written_at), view.transaction
    yield "last checkpoint", f"{at} (transaction {number:,})"
    for figure in figures(view):
        yield figure.name, ", ".join(one.text for one in (figure.value, *figure.more))
    if versions := view.notes.get(VERSIONS):
        yield "last with", ", ".join(map(" ".join, versions.items()))
    for name, requests in view.largest.items():
        slow = view.slowness(name)
        yield f"  {slot_name(name)}", f"{requests:,}" + (f", {slow}" if slow else "")
    for kind in ("blocked", "paused"):
        for rule in view.rules.values[kind]:
            yield kind, described(rule)
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
    from bloomdupe.monitoring.top import follow, screen

    interval = max(0.1, check_seconds(options.interval, "--interval"))
    has_screen = os.environ.get("TERM") != "dumb" and all(
        file is not None and file.isatty() for file in (sys.stdout, sys.stdin)
    )
    if has_screen and not options.json:
        follow(options.job, interval)
        return Answer((), {})
    view = options.job.read()
    *lines, _ = screen(view, get_terminal_size())  # without the keys
    return Answer(lines, view.as_dict())


@verb("report crawls/site -o report.html", "-o --output", store_required=False)
def report(options: Namespace) -> Answer:
    """Write one page that loads no other files, about the job at its last checkpoint.

    A crawl may be running. An existing page is replaced when the new page is complete.
    """
    from bloomdupe.monitoring.report import report as page_of

    # In ASCII, whatever a terminal can encode.
    page = page_of(options.job.read()).encode("ascii", "xmlcharrefreplace")
    record = {"page": options.output, "bytes": len(page)}
    if options.output == "-":
        if options.json:
            raise SettingError("--output -: --json needs a file for the page")
        return Answer(page.decode().splitlines(), record)
    target = Path(options.output)
    if target.is_dir():
        raise SettingError(f"--output {target}: it is a directory; name a file")
    try:
        if target.is_symlink() or (target.exists() and not target.is_file()):
            target.write_bytes(page)  # a link, a pipe or a device is not replaced
        else:
            write_file(target, [page], mode=0o666)
    except OSError as error:
        raise BloomDupeError(f"--output {target}: {error.strerror}") from error
    return Answer([f"{options.output}: {len(page):,} bytes"], record)


OF_SIZES = {
    "expected URLs (n)": "{urls:,}",
    "false-positive probability (p), given": "{fpp_given:.3g}",
    "  calculated": "{fpp_calculated:.3g}",
    "bits per key (m/n)": "{bits_per_key:.2f}",
    "  least possible for that p": "{bits_per_key_optimal:.2f}",
    "hashes (k)": "{hashes}",
    "share of bits set": "{fill:.1%}",
    "memory": "{memory_bytes:,} bytes",
    "  with BLOOMDUPE_FILTER_MEMORY = 0": "{memory_bytes_mapped:,} bytes",
    "disk, compacted": "{disk_bytes:,} bytes",
}


def amount(text: str) -> int:
    """Read a number of URLs: ``10_000_000``, ``1e7``, ``10M``."""
    power = " KMGT".find(text[-1:].upper())
    with suppress(ValueError):  # or it is refused as it is
        if power > 0:
            text = f"{float(text[:-1]) * 1000**power:.0f}"
    return sizing.check_capacity(text, "--urls")


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
    return Answer(table(_figures(OF_SIZES, found)), found)


# Requests of a job, one on each line, and URLs

OF_FAILURES = ("slot", "reason", "status", "times", "time", "url", "parent", "detail")
"""Fields of a failed request that its JSON object has."""


@verb(
    "list crawls/site --slot example.com --pattern '/tag/' --limit 20",
    *SELECTION,
    *FAILED,
    "--summary",
    "--limit",
    store_required=False,
)
def list_requests(options: Namespace) -> Answer:
    """List the pending requests of the last checkpoint, and those in flight.

    Each line has slot, priority, method, callback and URL, slot by slot, the next
    request first. With --failed, list the failed requests instead, the latest first.
    With --json, print an object on each line.
    """
    job: Job = options.job
    selection = Selection.of(options.slot, options.pattern)
    reasons = reasons_of(options)
    limit = options.limit
    most = None if limit is None else check_integer(limit, "--limit")
    warn_if_unknown(job, options.slot)
    if options.summary and reasons is None:
        raise SettingError("--summary groups failed requests: add --failed")
    found: Iterable[Listed]
    if reasons is None:
        found = job.requests(selection)
    else:
        failed = job.failed_requests(selection, reasons)
        if options.summary:
            return _summary_of(failed.groups[:most])
        found = failed.requests
    found = islice(found, most)
    return Answer(map(_line, found), map(_record, found))


def _summary_of(groups: list[tuple[Failure, int]]) -> Answer:
    lines = (
        (f"{requests:,}", one.in_words, one.exception, slot_name(one.slot))
        for one, requests in groups
    )
    records = (
        {"requests": requests, "exception": one.exception, **_record(one)}
        for one, requests in groups
    )
    return Answer(("  ".join(filter(None, line)) for line in lines), records)


def _record(one: Listed) -> dict[str, Any]:
    found = one._asdict()
    if isinstance(one, Failure):
        return {name: found[name] for name in OF_FAILURES}
    found["payload"] = one.payload and b64encode(one.payload).decode()
    for name in ("not_before", "problem", "payload"):
        if found[name] is None:
            del found[name]
    return found


def _line(one: Listed) -> str:
    """Return a request as it is listed."""
    slot = slot_name(one.slot)
    if isinstance(one, Failure):
        detail = "" if one.reason == "status" else f"  {one.detail}"
        cells = [one.in_words, f"{one.times}x", when(one.time), f"{one.url}{detail}"]
    elif one.problem is not None:
        cells = [f"cannot be read: {one.url}: {one.problem}"]
    else:
        cells = [str(one.priority), one.method, one.callback or "no callback", one.url]
        if one.not_before is not None:
            cells.append(f"after {when(one.not_before)}")
    return "  ".join((slot, *cells))


@verb("check crawls/site https://example.com/a https://example.com/b", *REQUESTS)
def check(options: Namespace) -> Answer:
    """Show whether the job has seen URLs, has them pending, or they have failed.

    It is as of the last checkpoint. A URL that is seen and not pending is done, was
    removed, or is in flight. The project's fingerprinter decides which URLs are the
    same; run this in its folder.
    """
    from bloomdupe.jobs.request_line import lines_of

    problems = Problems()
    lines = lines_of(options.urls, options.file, problems)
    urls = options.job.look_up(options.project_settings, lines, problems)
    record = {
        "urls": [
            {
                **one._asdict(),
                "pending": [*map(_record, one.pending)],
                "failed": one.failed and _record(one.failed),
            }
            for one in urls
        ],
        "broken": problems.as_dict(),
    }
    said = chain(chain.from_iterable(map(_states, urls)), problems.lines())
    return Answer(said, record, int(problems.count > 0))


def _states(one: FoundUrl) -> Iterator[str]:
    for found in one.pending:
        yield f"pending: {_line(found)}"
    if not one.pending:
        state = "seen, not pending" if one.seen else "new"
        if one.failed is not None:
            state = f"failed ({one.failed.in_words}, {one.failed.times}x)"
        yield f"{state}: {one.url}"


# What a user has given


def warn_if_unknown(job: Job, slot: str | None) -> None:
    """Say so if no request of a slot is pending or failed: its name may be mistyped."""
    if slot is None:
        return
    chosen = Selection(slot)
    known = chain(job.requests(chosen), job.failed_requests(chosen).requests)
    if not any(True for _ in known):
        warn(f"the job has no slot {slot!r}: no request of it is pending or failed")


def reasons_of(options: Namespace) -> tuple[str, ...] | None:
    """Return the given reasons, () for all; None without ``--failed``."""
    if options.reason is None:
        return () if options.failed else None
    if not options.failed:
        raise SettingError("--reason selects failed requests: add --failed")
    return check_reasons(options.reason, "--reason") or ()
