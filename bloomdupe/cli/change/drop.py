"""``drop``: remove pending requests, which are then not fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.cli.change.change_verb import ChangeVerb
from bloomdupe.cli.change.selection_arguments import add_named, dropping_of

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterator

    from bloomdupe.crawl.changes.change import Change
    from bloomdupe.jobs.project import Project


class Drop(ChangeVerb):
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
    needs = "changing"
    fields = ("dropped", "left", "in_progress")

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the selection of requests."""
        add_named(parser)

    def change(self, options: Namespace, project: Callable[[], Project]) -> Change:
        """Select the requests."""
        return {"kind": "drop", **dropping_of(options, project)}

    def lines(self, answer: dict[str, Any]) -> Iterator[str]:
        """Yield the numbers in a line or two."""
        yield f"{answer['dropped']:,} removed, {answer['left']:,} pending"
        yield from going_on_in_words(answer["in_progress"])


def going_on_in_words(number: int) -> Iterator[str]:
    """Yield a line about selected requests in progress, if there are any."""
    if number:
        yield f"{number:,} in progress: these go on"
