"""``list``: requests of a job, one on each line."""

from __future__ import annotations

import argparse
import sys
from base64 import b64encode
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeAlias

from bloomdupe.cli.change.selection_arguments import (
    add_failed,
    add_selection,
    reasons_of,
    warn_if_unknown,
)
from bloomdupe.cli.progress_bar import counted
from bloomdupe.cli.verb import Verb
from bloomdupe.crawl.leases.failure import Failure, in_words
from bloomdupe.crawl.progress.pace import plural, when
from bloomdupe.errors import SettingError, shown
from bloomdupe.jobs.job_contract import ListedItems, ListedRequest
from bloomdupe.jobs.overview import slot_name
from bloomdupe.jobs.selection import Selection
from bloomdupe.jobs.view import FailedRequests, FailureGroup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bloomdupe.jobs.job_contract import Job

FIRST = 200
"""Lines that decide on the widths of columns."""
OF_FAILURES = ("slot", "reason", "status", "times", "time", "url", "parent", "detail")
"""Fields of a failed request that its JSON object has."""

Listed: TypeAlias = ListedRequest | ListedItems | Failure | FailureGroup


class List(Verb["Iterator[Listed]"]):
    """Lists requests while they are read, so memory does not grow with them."""

    name = "list"
    help = "the pending or the failed requests, by slot and pattern"
    description = (
        "List the pending requests of the last checkpoint: slot, priority, method,"
        " callback and URL, slot by slot, the next request of a slot first. While a"
        " crawl runs, requests in progress are among them. With --failed, list the"
        " failed requests instead, the latest first: slot, reason and status, number of"
        " failures, time, URL, exception; --summary counts them by reason, exception"
        " and slot. Of a crawl that workers share on Redis, requests in progress follow"
        " the pending requests of their partition, with the"
        " name of the worker. With --json, print an object on each line."
    )
    example = "list crawls/site --slot example.com --pattern '/tag/' --limit 20"
    needs = "requests"
    store_required = False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the selection of requests, and their number."""
        add_selection(parser)
        add_failed(parser, "the failed requests, instead of pending requests")
        parser.add_argument(
            "--summary",
            action="store_true",
            help="with --failed: a line for each reason, exception and slot",
        )
        parser.add_argument(
            "--limit", type=_limit, metavar="N", help="print at most N lines"
        )

    def run(self, options: argparse.Namespace) -> Iterator[Listed]:
        """Begin to read."""
        job: Job = options.job
        selection = Selection.of(options.slot, options.pattern)
        reasons = reasons_of(options)
        found: Iterator[Listed]
        if reasons is None:
            if options.summary:
                raise SettingError("--summary groups failed requests: add --failed")
            found = job.requests(selection, counted)
        else:
            failures = FailedRequests(job.failed_requests(selection, reasons))
            found = iter(failures.groups if options.summary else failures.requests)
        first = [*islice(found, 1)]
        if not first and options.slot is not None:
            warn_if_unknown(job, options.slot)
        return islice(chain(first, found), options.limit)

    def text(self, result: Iterator[Listed]) -> Iterator[str]:
        """Yield a line for each; in columns on a terminal."""
        if sys.stdout is not None and sys.stdout.isatty():
            return _in_columns(result)
        return ("  ".join(filter(None, _cells(one))) for one in result)

    def json(self, result: Iterator[Listed]) -> Iterator[dict[str, Any]]:
        """Yield an object for each."""
        for one in result:
            found = one._asdict()
            if isinstance(one, Failure):
                found = {name: found[name] for name in OF_FAILURES}
            elif not isinstance(one, FailureGroup):
                if found.get("payload") is not None:
                    found["payload"] = b64encode(found["payload"]).decode()
                for name in ("not_before", "problem", "worker", "payload"):
                    if found.get(name) is None:
                        found.pop(name, None)
            yield found


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:20]) <= sys.maxsize):
        raise argparse.ArgumentTypeError(
            f"{shown(text)} is not a number of lines, such as 20"
        )
    return int(text)


def _cells(one: Listed) -> list[str]:
    """Return the cells of a line; an empty cell is left out, unless in columns."""
    if isinstance(one, FailureGroup):
        return [f"{one.requests:,}", one.cause, one.exception, slot_name(one.slot)]
    if isinstance(one, Failure):
        reason = in_words(one.reason, one.status)
        detail = "" if one.reason == "status" else f"  {one.detail}"
        url = f"{one.url}{detail}"
        return [slot_name(one.slot), reason, f"{one.times}x", when(one.time), url]
    slot = slot_name(one.slot)
    by = "" if one.worker is None else f"  in progress with {one.worker}"
    if isinstance(one, ListedItems):
        items = f"{plural(one.lines, 'line')} of items that start() has yielded"
        return [slot, str(one.priority), "", "", f"{items}{by}"]
    if one.problem is not None:
        problem = f"cannot be read: {one.url}: {one.problem}{by}"
        return [slot, "", "", "", problem]
    callback = "no callback" if one.callback is None else one.callback
    then = "" if one.not_before is None else f"  after {when(one.not_before)}"
    url = f"{one.url}{then}{by}"
    return [slot, str(one.priority), one.method, callback, url]


def _heads(one: Listed) -> list[str]:
    """Return the heads of the columns."""
    if isinstance(one, FailureGroup):
        return ["requests", "reason", "exception", "slot"]
    if isinstance(one, Failure):
        return ["slot", "reason", "times", "last time", "URL"]
    return ["slot", "priority", "method", "callback", "URL"]


def _in_columns(result: Iterator[Listed]) -> Iterator[str]:
    """Yield a header and a line for each, in columns as wide as the first lines need.

    Nothing is waited for longer than for these, and memory does not grow.
    """
    first = list(islice(result, FIRST))
    if not first:
        return
    rows = [_heads(first[0]), *map(_cells, first)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths[-1] = 0
    for row in chain(rows, map(_cells, result)):
        cells = zip(row, widths, strict=True)
        yield "  ".join(cell.ljust(width) for cell, width in cells).rstrip()
