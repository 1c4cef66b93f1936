"""``list`` and ``check``: requests of a job, one on each line, and URLs."""

from __future__ import annotations

import contextlib
import sys
from base64 import b64encode
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from bloomdupe.cli.output import warn
from bloomdupe.cli.verbs import FAILED, REQUESTS, SELECTION, Answer, verb
from bloomdupe.crawl.progress.pace import when
from bloomdupe.crawl.state.failures import Failure, in_words
from bloomdupe.errors import SettingError, shown
from bloomdupe.jobs.lines import Line, Problems, read_lines
from bloomdupe.jobs.listed import FailureGroup, ListedRequest, Selection
from bloomdupe.jobs.view import slot_name
from bloomdupe.settings import FAILURE_REASONS, check_reasons

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from bloomdupe.jobs.job import Job
    from bloomdupe.jobs.listed import FoundUrl


OF_FAILURES = ("slot", "reason", "status", "times", "time", "url", "parent", "detail")
"""Fields of a failed request that its JSON object has."""

Listed: TypeAlias = ListedRequest | Failure | FailureGroup


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
    most = options.limit
    if most is not None and not 0 < most <= sys.maxsize:
        raise SettingError(
            f"--limit {shown(most)} is not a number of lines, such as 20"
        )
    warn_if_unknown(job, options.slot)
    if options.summary and reasons is None:
        raise SettingError("--summary groups failed requests: add --failed")
    found: Iterator[Listed]
    if reasons is None:
        found = job.requests(selection)
    else:
        failed = job.failed_requests(selection, reasons)
        found = iter(failed.groups if options.summary else failed.requests)
    found = islice(found, most)
    return Answer(map("  ".join, map(_cells, found)), map(_record, found))


def _record(one: Listed) -> dict[str, Any]:
    found = one._asdict()
    if isinstance(one, Failure):
        return {name: found[name] for name in OF_FAILURES}
    if not isinstance(one, FailureGroup):
        if found.get("payload") is not None:
            found["payload"] = b64encode(found["payload"]).decode()
        for name in ("not_before", "problem", "payload"):
            if found.get(name) is None:
                found.pop(name, None)
    return found


def _cells(one: Listed) -> list[str]:
    """Return the parts of a line."""
    if isinstance(one, FailureGroup):
        exception = [one.exception] * bool(one.exception)
        cause = in_words(one.reason, one.status)
        return [f"{one.requests:,}", cause, *exception, slot_name(one.slot)]
    if isinstance(one, Failure):
        reason = in_words(one.reason, one.status)
        detail = "" if one.reason == "status" else f"  {one.detail}"
        url = f"{one.url}{detail}"
        return [slot_name(one.slot), reason, f"{one.times}x", when(one.time), url]
    slot = slot_name(one.slot)
    if one.problem is not None:
        return [slot, f"cannot be read: {one.url}: {one.problem}"]
    callback = "no callback" if one.callback is None else one.callback
    then = "" if one.not_before is None else f"  after {when(one.not_before)}"
    return [slot, str(one.priority), one.method, callback, f"{one.url}{then}"]


@verb("check crawls/site https://example.com/a https://example.com/b", *REQUESTS)
def check(options: Namespace) -> Answer:
    """Show whether the job has seen URLs, has them pending, or they have failed.

    It is as of the last checkpoint. A URL that is seen and not pending is done, was
    removed, or is in flight. The project's fingerprinter decides which URLs are the
    same; run this in its folder.
    """
    check_named(options)
    problems = Problems()
    lines = given_lines(options, problems)
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
    shown = chain(chain.from_iterable(map(_states, urls)), problems.lines())
    return Answer(shown, record, int(problems.count > 0))


def _states(one: FoundUrl) -> Iterator[str]:
    for found in one.pending:
        then = "" if found.not_before is None else f", after {when(found.not_before)}"
        yield (
            f"pending in {found.slot}, priority {found.priority},"
            f" {found.callback or 'no callback'}{then}: {one.url}"
        )
    if not one.pending:
        state = "seen, not pending" if one.seen else "new"
        if one.failed is not None:
            reason = in_words(one.failed.reason, one.failed.status)
            state = f"failed ({reason}, {one.failed.times}x)"
        yield f"{state}: {one.url}"


def check_named(options: Namespace) -> None:
    """Refuse a verb that is given neither URLs nor a file."""
    if not options.urls and options.file is None:
        raise SettingError("no URLs are given: name some, or a file with --from")


def given_lines(options: Namespace, problems: Problems) -> Iterator[Line]:
    """Yield the URLs that were given, and then the lines of the file."""
    yield from (Line(url, url) for url in options.urls)
    if options.file is not None:
        with _opened(options.file) as file:
            yield from read_lines(file, problems)


@contextlib.contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    """Open a file, or standard input; :class:`SettingError` if it cannot be opened."""
    if name == "-":
        if sys.stdin is None:  # it was closed before the program began
            raise SettingError("cannot read standard input: it is closed")
        yield sys.stdin.buffer
        return
    try:
        file = Path(name).open("rb")  # noqa: SIM115 - closed below
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", error)
        raise SettingError(f"cannot read {name}: {reason}") from error
    with file:
        yield file


def warn_if_unknown(job: Job, slot: str | None) -> None:
    """Say so if no request of a slot is pending or failed: its name may be mistyped."""
    if slot is not None and not job.has_slot(slot):
        warn(f"the job has no slot {slot!r}: no request of it is pending or failed")


def reasons_of(options: Namespace) -> tuple[str, ...] | None:
    """Return the given reasons, () for all; None without ``--failed``."""
    if options.reason is None:
        return () if options.failed else None
    if not options.failed:
        raise SettingError("--reason selects failed requests: add --failed")
    try:
        return check_reasons(options.reason, "--reason") or ()
    except SettingError as error:
        failed = options.job.failed_requests(Selection()).requests
        has = ", ".join(sorted({one.option for one in failed})) or "none"
        raise SettingError(
            f"--reason {options.reason!r}: expected HTTP statuses such as 503, or"
            f" {', '.join(FAILURE_REASONS)}; reasons in this job: {has}"
        ) from error
