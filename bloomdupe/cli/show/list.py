"""``list``: requests of a job, one on each line."""

from __future__ import annotations

import argparse
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from bloomdupe.cli.change.failed_arguments import add_failed, reasons_of
from bloomdupe.cli.change.selection_arguments import add_selection
from bloomdupe.cli.progress import counted
from bloomdupe.cli.show.shared_rows import slot_name
from bloomdupe.cli.store_argument import add_store, store_directory
from bloomdupe.cli.table import when
from bloomdupe.cli.verb import Verb
from bloomdupe.crawl.requests.summary import summary_of
from bloomdupe.errors import SettingError, UnserializableError
from bloomdupe.filter.opening import is_url
from bloomdupe.frontier.payload import url_of
from bloomdupe.frontier.pending_requests import count_pending, pending_requests
from bloomdupe.jobs.failed import failed_requests
from bloomdupe.jobs.selection import Selection
from bloomdupe.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bloomdupe.jobs.shared_requests import SharedRequests

__all__ = ["List", "Listed", "ListedFailure", "ListedLines"]


class Listed(NamedTuple):
    """A pending request in the list."""

    slot: str
    method: str
    url: str
    priority: int
    callback: str | None
    not_before: float | None = None
    """Unix time before which it is not fetched."""
    problem: str | None = None
    """The reason why it cannot be read."""
    worker: str | None = None
    """In a crawl on Redis, the worker that processes it."""

    @property
    def line(self) -> str:
        """Say it in a line."""
        slot = slot_name(self.slot)
        by = "" if self.worker is None else f"  under way with {self.worker}"
        if self.problem is not None:
            return f"{slot}  cannot be read: {self.url}: {self.problem}{by}"
        callback = "no callback" if self.callback is None else self.callback
        then = "" if self.not_before is None else f"  after {when(self.not_before)}"
        return (
            f"{slot}  {self.priority}  {self.method}  {callback}  {self.url}{then}{by}"
        )


class ListedLines(NamedTuple):
    """Items of ``start()``, on their way to the output of a crawl on Redis."""

    slot: str
    priority: int
    lines: int
    worker: str | None = None

    @property
    def line(self) -> str:
        """Say it in a line."""
        by = "" if self.worker is None else f"  under way with {self.worker}"
        return (
            f"{slot_name(self.slot)}  {self.priority}  {self.lines:,} lines of items"
            f" that start() has yielded{by}"
        )


class ListedFailure(NamedTuple):
    """A failed request in the list."""

    slot: str
    reason: str
    status: int | None
    times: int
    time: float
    """Unix time of the last failure."""
    url: str
    parent: str | None
    detail: str

    @property
    def line(self) -> str:
        """Say it in a line, without the parent."""
        why = self.reason if self.status is None else f"{self.reason} {self.status}"
        detail = "" if self.reason == "status" else f"  {self.detail}"
        return (
            f"{self.slot}  {why}  {self.times}x  {when(self.time)}  {self.url}{detail}"
        )


Line: TypeAlias = Listed | ListedLines | ListedFailure


class List(Verb["Iterator[Line]"]):
    """Lists requests while they are read, so memory does not grow with them."""

    name = "list"
    help = "the requests that wait, or have failed, by slot and pattern"
    description = (
        "List the requests of the last checkpoint that wait: slot, priority, method,"
        " callback and URL, slot by slot, in each the next one first. While a crawl"
        " runs, those under way are among them. With --failed, those that have given up"
        " instead, the last ones first: slot, reason and status, how often, when, URL,"
        " exception. Of a crawl that workers share on Redis, those under way follow"
        " what waits in their partition, with the name of the worker. With --json, an"
        " object on each line."
    )
    example = "list crawls/site --slot example.com --pattern '/tag/' --limit 20"

    def add_arguments(
        self, parser: argparse.ArgumentParser, jobdir: str | None
    ) -> None:
        """Add the store, the selection of requests, and their number."""
        add_store(parser, jobdir, url="a crawl")
        add_selection(parser)
        add_failed(parser, "those that have given up, instead of those that wait")
        parser.add_argument(
            "--limit", type=_limit, metavar="N", help="so many lines at most"
        )

    def run(self, options: argparse.Namespace) -> Iterator[Line]:
        """Begin to read."""
        selection = Selection.of(options.slot, options.pattern)
        reasons = reasons_of(options)
        found: Iterator[Line]
        if is_url(options.store):
            if reasons is not None:
                raise SettingError(
                    "--failed: a crawl on Redis keeps no ledger of failures"
                )
            found = _shared(options.store, selection)
        elif reasons is None:
            found = _pending(store_directory(options.store), selection)
        else:
            path = store_directory(options.store)
            failures = failed_requests(path, selection, reasons)
            names = ListedFailure._fields
            found = (
                ListedFailure(*(getattr(one, name) for name in names))
                for one in failures
            )
        return islice(found, options.limit)

    def text(self, result: Iterator[Line]) -> Iterator[str]:
        """Yield a line for each."""
        return (one.line for one in result)

    def json(self, result: Iterator[Line]) -> Iterator[dict[str, Any]]:
        """Yield an object for each."""
        for one in result:
            found = one._asdict()
            for name in ("not_before", "problem", "worker"):
                if not isinstance(one, ListedFailure) and found.get(name) is None:
                    found.pop(name, None)
            yield found


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:20]) <= sys.maxsize):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of lines, such as 20"
        )
    return int(text)


def _pending(path: Path, selection: Selection) -> Iterator[Listed]:
    """Yield the pending requests; opens the store at once."""
    store = Store.open(path, readonly=True, network=True)
    return _read(store, selection)


def _read(store: Store, selection: Selection) -> Iterator[Listed]:
    try:
        total = count_pending(store, selection.slot)
        for one in counted(pending_requests(store, selection.slot), total, "requests"):
            slot = one.slot
            try:
                summary = summary_of(one.payload)
            except UnserializableError as error:
                if selection.pattern is None:
                    url = url_of(one.payload)
                    yield Listed(slot, "?", url, 0, None, problem=str(error))
                continue
            if selection.has(slot, summary.url):
                yield Listed(
                    slot,
                    summary.method,
                    summary.url,
                    summary.priority,
                    summary.callback,
                    one.not_before,
                )
    finally:
        store.close()


def _shared(url: str, selection: Selection) -> Iterator[Line]:
    """Yield the unfinished requests and lines of a crawl on Redis; opens it at once."""
    from bloomdupe.jobs.shared_requests import SharedRequests

    return _read_shared(SharedRequests(url, selection.slot), selection)


def _read_shared(owed: SharedRequests, selection: Selection) -> Iterator[Line]:
    for one in counted(owed, owed.count(), "requests"):
        slot, request = one.slot, one.request
        if request is not None:
            if selection.has(slot, request.url):
                yield Listed(
                    slot,
                    request.method,
                    request.url,
                    one.priority,
                    request.callback,
                    worker=one.worker,
                )
        elif selection.pattern is None:
            if one.problem is None:
                yield ListedLines(slot, one.priority, one.lines, one.worker)
            else:
                unread = one.unread
                yield Listed(
                    slot, "?", unread, one.priority, None, None, one.problem, one.worker
                )
