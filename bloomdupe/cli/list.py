"""``list``: requests of a job, one on each line."""

from __future__ import annotations

import argparse
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.cli.failed_arguments import add_failed, reasons_of
from bloomdupe.cli.progress import counted
from bloomdupe.cli.selection_arguments import add_selection
from bloomdupe.cli.store_argument import add_store, store_directory
from bloomdupe.cli.table import when
from bloomdupe.cli.verb import Verb
from bloomdupe.errors import UnserializableError
from bloomdupe.frontier.payload import url_of
from bloomdupe.frontier.waiting import count_waiting, waiting
from bloomdupe.store.store import Store
from bloomdupe.upkeep.failed import failed_requests
from bloomdupe.upkeep.selection import Selection
from bloomdupe.upkeep.summary import summary_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["List", "Listed", "ListedFailure"]


class Listed(NamedTuple):
    """A request, as it is listed."""

    slot: str
    method: str
    url: str
    priority: int
    callback: str | None
    not_before: float | None = None
    """Unix time before which nobody gets it."""
    problem: str | None = None
    """Why it cannot be read."""


class ListedFailure(NamedTuple):
    """A request that has failed, as it is listed."""

    slot: str
    reason: str
    status: int | None
    times: int
    time: float
    """Unix time of the last time."""
    url: str
    parent: str | None
    detail: str

    @property
    def line(self) -> str:
        """Say it in a line, without the parent."""
        why = self.reason if self.status is None else f"{self.reason} {self.status}"
        detail = "" if self.reason == "status" else f"  {_in_line(self.detail)}"
        return (
            f"{self.slot}  {why}  {self.times}x  {when(self.time)}"
            f"  {_in_line(self.url)}{detail}"
        )


class List(Verb["Iterator[Listed | ListedFailure]"]):
    """Lists requests while they are read, so memory does not grow with them."""

    name = "list"
    help = "the requests that wait, or have failed, by slot and pattern"
    description = (
        "List the requests of the last checkpoint that wait: slot, priority, method,"
        " callback and URL, slot by slot, in each the next one first. While a crawl"
        " runs, those under way are among them. With --failed, those that have given up"
        " instead, the last ones first: slot, reason and status, how often, when, URL,"
        " exception. With --json, an object on each line."
    )
    example = "list crawls/site --slot example.com --pattern '/tag/' --limit 20"

    def add_arguments(
        self, parser: argparse.ArgumentParser, jobdir: str | None
    ) -> None:
        """Add the store, which requests, and how many."""
        add_store(parser, jobdir)
        add_selection(parser)
        add_failed(parser, "those that have given up, instead of those that wait")
        parser.add_argument(
            "--limit", type=_limit, metavar="N", help="so many lines at most"
        )

    def run(self, options: argparse.Namespace) -> Iterator[Listed | ListedFailure]:
        """Begin to read."""
        selection = Selection.of(options.slot, options.pattern)
        reasons = reasons_of(options)
        path = store_directory(options.store)
        found: Iterator[Listed | ListedFailure]
        if reasons is None:
            found = _pending(path, selection)
        else:
            failures = failed_requests(path, selection, reasons)
            names = ListedFailure._fields
            found = (
                ListedFailure(*(getattr(one, name) for name in names))
                for one in failures
            )
        return islice(found, options.limit)

    def text(self, result: Iterator[Listed | ListedFailure]) -> Iterator[str]:
        """A line for each; what could break a line in a URL is escaped."""
        for one in result:
            if isinstance(one, ListedFailure):
                yield one.line
                continue
            if one.problem is not None:
                yield f"{one.slot}  cannot be read: {one.url}: {one.problem}"
                continue
            url = _in_line(one.url)
            callback = "no callback" if one.callback is None else one.callback
            then = "" if one.not_before is None else f"  after {when(one.not_before)}"
            yield f"{one.slot}  {one.priority}  {one.method}  {callback}  {url}{then}"

    def json(
        self, result: Iterator[Listed | ListedFailure]
    ) -> Iterator[dict[str, Any]]:
        """Yield an object for each."""
        for one in result:
            found = one._asdict()
            for name in ("not_before", "problem"):
                if isinstance(one, Listed) and found[name] is None:
                    del found[name]
            yield found


def _in_line(text: str) -> str:
    return text if text.isprintable() else ascii(text)


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of lines, such as 20"
        )
    return int(text)


def _pending(path: Path, selection: Selection) -> Iterator[Listed]:
    """Yield the requests that wait; opens the store at once."""
    store = Store.open(path, readonly=True, network=True)
    return _read(store, selection)


def _read(store: Store, selection: Selection) -> Iterator[Listed]:
    try:
        total = count_waiting(store, selection.slot)
        for one in counted(waiting(store, selection.slot), total, "requests"):
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
