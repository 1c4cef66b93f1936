"""``drop``: remove pending requests, which are then not fetched."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.cli.change.selection_arguments import add_named, named_requests
from bloomdupe.cli.store_argument import add_store
from bloomdupe.cli.verb import Verb
from bloomdupe.frontier.remover import Remover
from bloomdupe.jobs.on_disk.failed_requests import RequeuedFailures
from bloomdupe.store.store import Store

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

__all__ = ["Drop"]

BATCH = 10_000
"""Requests that one transaction removes."""


class Dropped(NamedTuple):
    """The numbers of requests removed and left."""

    dropped: int
    left: int


class Drop(Verb[Dropped]):
    """Removes pending requests; their URLs stay seen."""

    name = "drop"
    help = "remove pending requests"
    description = (
        "Remove pending requests from a job: those for these URLs, of a slot, or with a"
        " pattern in their URLs; if several are given, those that match all. Removed"
        " requests stay seen, so no link adds them again; `requeue` does, and `block`"
        " keeps new requests out. The job must not be running. Each transaction removes"
        f" {BATCH:,}: if this is interrupted, run it again."
    )
    example = "drop crawls/site --slot example.com --pattern '[?]sort='"
    needs = "directory"

    def add_arguments(
        self, parser: argparse.ArgumentParser, jobdir: str | None
    ) -> None:
        """Add the store, and the selection of requests."""
        add_store(parser, jobdir, self, required=True)
        add_named(parser)

    def run(self, options: argparse.Namespace) -> Dropped:
        """Remove them."""
        store = Store.open(options.job.directory)
        try:
            return drop(store, options)
        finally:
            store.close()

    def text(self, result: Dropped) -> Iterable[str]:
        """Return both numbers in a line."""
        yield f"{result.dropped:,} removed, {result.left:,} pending"

    def json(self, result: Dropped) -> dict[str, Any]:
        """Return both numbers."""
        return result._asdict()


def drop(store: Store, options: argparse.Namespace) -> Dropped:
    """Remove the selected requests, in batches."""
    remover = Remover(store)
    requeued = RequeuedFailures(store)
    found = named_requests(store, options)
    dropped = 0
    while batch := list(islice(found, BATCH)):
        remover.remove(batch, requeued.removed(batch))
        dropped += len(batch)
    return Dropped(dropped, remover.left)
