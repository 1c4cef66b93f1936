"""``drop``: remove pending requests, which are then not fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.cli.change.added_counts import by_the_crawl
from bloomdupe.cli.change.selection_arguments import add_named, dropping_of
from bloomdupe.cli.output import warn
from bloomdupe.cli.progress_bar import counted
from bloomdupe.cli.store_argument import add_store
from bloomdupe.cli.verb import Verb

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

__all__ = ["Drop", "going_on_in_words"]


class Dropped(NamedTuple):
    """The numbers of requests removed, left, and in progress."""

    dropped: int
    left: int
    in_progress: int
    taken_up: bool


class Drop(Verb[Dropped]):
    """Removes pending requests; their URLs stay seen."""

    name = "drop"
    help = "remove pending requests"
    description = (
        "Remove pending requests from a job: those for these URLs, of a slot, or with a"
        " pattern in their URLs; if several are given, those that match all. Removed"
        " requests stay seen, so no link adds them again; `requeue` does, and `block`"
        " keeps new requests out. A running crawl makes the change at its next"
        " checkpoint; requests in progress go on. If this is interrupted, run it again."
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
        from bloomdupe.jobs.on_disk.changing import Changing

        path = options.job.directory
        given, by_url = options.project_settings, bool(options.urls)
        with Changing(path, given, warn, counted, by_url=by_url) as job:
            answer, taken_up = job.make(dropping_of(options, lambda: job.project))
        return Dropped(
            answer["dropped"], answer["left"], answer["in_progress"], taken_up
        )

    def text(self, result: Dropped) -> Iterable[str]:
        """Return the numbers in a line or two."""
        begin = by_the_crawl(taken_up=result.taken_up)
        yield f"{begin}{result.dropped:,} removed, {result.left:,} pending"
        yield from going_on_in_words(result.in_progress)

    def json(self, result: Dropped) -> dict[str, Any]:
        """Return the numbers."""
        return result._asdict()


def going_on_in_words(number: int) -> Iterable[str]:
    """Yield a line about selected requests in progress, if there are any."""
    if number:
        yield f"{number:,} in progress: these go on"
