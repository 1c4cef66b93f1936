"""``drop``: remove pending requests, which are then not fetched."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.cli.change.chosen import add_chosen, chosen
from bloomdupe.cli.store_argument import add_store, store_directory
from bloomdupe.cli.verb import Verb
from bloomdupe.frontier.remover import Remover
from bloomdupe.jobs.failed import TakenUp
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
    help = "requests that wait, not to be fetched"
    description = (
        "Take requests that wait out of a job: those for these URLs, of a slot, with a"
        " pattern in their URLs, or what all that is given has in common. They stay"
        " seen, so no link brings them back; `requeue` does, and `block` keeps new ones"
        " out. The job must not be running. Each transaction takes out"
        f" {BATCH:,}: if this is interrupted, run it again."
    )
    example = "drop crawls/site --slot example.com --pattern '[?]sort='"

    def add_arguments(
        self, parser: argparse.ArgumentParser, jobdir: str | None
    ) -> None:
        """Add the store, and the selection of requests."""
        add_store(parser, jobdir, needed=True)
        add_chosen(parser)

    def run(self, options: argparse.Namespace) -> Dropped:
        """Remove them."""
        store = Store.open(store_directory(options.store))
        try:
            return drop(store, options)
        finally:
            store.close()

    def text(self, result: Dropped) -> Iterable[str]:
        """Return both numbers in a line."""
        yield f"{result.dropped:,} dropped, {result.left:,} wait"

    def json(self, result: Dropped) -> dict[str, Any]:
        """Return both numbers."""
        return result._asdict()


def drop(store: Store, options: argparse.Namespace) -> Dropped:
    """Remove the selected requests, in batches."""
    remover = Remover(store)
    taken_up = TakenUp(store)
    found = chosen(store, options)
    dropped = 0
    while batch := list(islice(found, BATCH)):
        remover.remove(batch, taken_up.dropped(batch))
        dropped += len(batch)
    return Dropped(dropped, remover.left)
