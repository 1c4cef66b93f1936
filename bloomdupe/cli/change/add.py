"""``add``: give a job more URLs to fetch."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from bloomdupe.cli.change.adding_verb import AddingVerb
from bloomdupe.cli.change.urls_argument import (
    add_request_options,
    add_urls,
    check_named,
)
from bloomdupe.cli.output import warn
from bloomdupe.cli.store_argument import add_store

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from bloomdupe.jobs.on_disk.adding import Added

__all__ = ["Add"]


class Add(AddingVerb):
    """Adds requests that the job has not seen."""

    name = "add"
    help = "add URLs that a job has not seen"
    description = (
        "Add URLs to a job, unless it has seen them; use `requeue` for URLs that it has"
        " seen. Added requests come after the other pending requests of their priority,"
        " like start requests, in the given order. Lines that are no URLs are printed"
        " with their numbers, and the exit code is 1; all other lines are added. A"
        " running crawl takes them up at its next checkpoint. The job is written every"
        " thousand requests: if this is interrupted, run it again."
    )
    example = "add crawls/site --from urls.txt --callback parse_item"
    needs = "new_directory"

    def add_arguments(self, parser: ArgumentParser, jobdir: str | None) -> None:
        """Add the store, the URLs, and the options of their requests."""
        add_store(parser, jobdir, self, required=True)
        add_urls(parser)
        add_request_options(parser)
        parser.add_argument(
            "--spider",
            metavar="NAME",
            help="spider of the job, if this begins the job",
        )

    def run(self, options: Namespace) -> Added:
        """Add the requests."""
        from bloomdupe.jobs.on_disk.adding import Added, add
        from bloomdupe.jobs.on_disk.changing import Changing

        check_named(options)
        added = Added()
        path, settings = options.job.new_directory, options.project_settings
        with closing(Changing(path, settings, warn, options.spider)) as job:
            add(self.found(options, job, added, start=True), job, added)
        return added
