"""``drop``: remove pending requests, which are then not fetched."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from bloomdupe.cli.change.selection_arguments import add_named, pages_of
from bloomdupe.cli.progress_bar import counted
from bloomdupe.cli.verb import Verb
from bloomdupe.errors import SettingError
from bloomdupe.jobs.selection import Selection

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from bloomdupe.jobs.changes import Dropped


class Drop(Verb["Dropped"]):
    """Removes pending requests; their URLs stay seen."""

    name = "drop"
    help = "remove pending requests of a job that does not run"
    description = (
        "Remove pending requests from a job that does not run: those for these URLs, of"
        " a slot, or with a pattern in their URLs; if several are given, those that"
        " match all. Removed requests stay seen, so no link adds them again; `requeue`"
        " does, and `block` keeps new requests out. If the job runs, stop it, drop, and"
        " start it again: it goes on where it was. If this is interrupted, run it"
        " again."
    )
    example = "drop crawls/site --slot example.com --pattern '[?]sort='"
    needs = "changing"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the selection of requests."""
        add_named(parser)

    def run(self, options: Namespace) -> Dropped:
        """Remove the requests."""
        if not (options.urls or options.slot or options.pattern):
            raise SettingError(
                "no requests are selected: name URLs, --slot, or --pattern (`--pattern"
                " .` selects all)"
            )
        selection = Selection.of(options.slot, options.pattern)
        opened = options.job.changing(
            options.project_settings, counted, by_url=bool(options.urls)
        )
        with closing(opened) as job:
            pages = pages_of(options, lambda: job.project)
            dropped: Dropped = job.drop(selection, pages)
        return dropped

    def text(self, result: Dropped) -> Iterator[str]:
        """Yield the numbers in a line or two."""
        yield f"{result.dropped:,} removed, {result.left:,} pending"
        if result.in_progress:
            yield f"{result.in_progress:,} in progress: these come again"
