"""``add``: give a job more URLs to fetch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.cli.change.added_counts import as_json, in_words
from bloomdupe.cli.change.urls_argument import (
    add_request_options,
    add_urls,
    check_named,
    given_lines,
)
from bloomdupe.cli.output import warn
from bloomdupe.cli.progress_bar import counted
from bloomdupe.cli.store_argument import add_store
from bloomdupe.cli.verb import Verb

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from bloomdupe.jobs.on_disk.adding import Added

__all__ = ["Add"]


class Add(Verb["Added"]):
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

    def add_arguments(
        self, parser: argparse.ArgumentParser, jobdir: str | None
    ) -> None:
        """Add the store, the URLs, and the options of their requests."""
        add_store(parser, jobdir, self, required=True)
        add_urls(parser)
        add_request_options(parser)
        parser.add_argument(
            "--spider",
            metavar="NAME",
            help="spider of the job, if this begins the job",
        )

    def run(self, options: argparse.Namespace) -> Added:
        """Add the requests."""
        from bloomdupe.jobs.on_disk.adding import Added, add
        from bloomdupe.jobs.on_disk.changing import Changing
        from bloomdupe.jobs.request_line import Defaults, read_all

        check_named(options)
        added = Added()
        path = options.job.new_directory
        with Changing(
            path, options.project_settings, warn, counted, options.spider
        ) as job:
            job.project.check_callback(options.callback)
            defaults = Defaults(options.callback, options.priority, start=True)
            lines = given_lines(options, added.problems)
            found = read_all(lines, defaults, job.project, added.problems)
            add(found, job, added)
        return added

    def text(self, result: Added) -> Iterable[str]:
        """Return the counts of requests by result."""
        return in_words(result)

    def json(self, result: Added) -> dict[str, Any]:
        """Return the counts."""
        return as_json(result)

    def status(self, result: Added) -> int:
        """1 if anything could not be read, or is blocked."""
        return int(result.problems.count > 0 or result.blocked > 0)
