"""``add``: give a job more URLs to fetch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.cli.change.taken import as_json, in_words
from bloomdupe.cli.change.urls_argument import (
    add_request_options,
    add_urls,
    given_lines,
)
from bloomdupe.cli.store_argument import add_store, place_of_store
from bloomdupe.cli.verb import Verb

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from bloomdupe.jobs.intake import Taken

__all__ = ["Add"]


class Add(Verb["Taken"]):
    """Adds requests that the job has not seen."""

    name = "add"
    help = "URLs that a job is to fetch, too"
    description = (
        "Let a job fetch these URLs, unless it has seen them; `requeue` is for those."
        " They wait behind other requests of their priority, like start requests, in"
        " the order in which they are given. Lines that are no URLs are named with"
        " their numbers, and the exit code is 1 then; the others are taken in. The job"
        " must not be running. It is written every few thousand requests: if this is"
        " interrupted, run it again."
    )
    example = "add crawls/site --from urls.txt --callback parse_item"

    def add_arguments(
        self, parser: argparse.ArgumentParser, jobdir: str | None
    ) -> None:
        """Add the store, the URLs, and the options of their requests."""
        add_store(parser, jobdir, needed=True)
        add_urls(parser)
        add_request_options(parser)
        parser.add_argument(
            "--spider",
            metavar="NAME",
            help="the spider of the job, if that is to be begun",
        )

    def run(self, options: argparse.Namespace) -> Taken:
        """Add the requests."""
        from bloomdupe.jobs.intake import Taken, add
        from bloomdupe.jobs.on_disk import StoppedJob
        from bloomdupe.jobs.written import Defaults, read_all

        taken = Taken()
        path = place_of_store(options.store)
        with StoppedJob.open_or_begin(
            path, options.project_settings, options.spider
        ) as job:
            job.project.check_callback(options.callback)
            defaults = Defaults(options.callback, options.priority, start=True)
            lines = given_lines(options, taken.problems)
            found = read_all(lines, defaults, job.project, taken.problems)
            add(found, job, taken)
        return taken

    def text(self, result: Taken) -> Iterable[str]:
        """Return the counts of requests by result."""
        return in_words(result)

    def json(self, result: Taken) -> dict[str, Any]:
        """Return the counts."""
        return as_json(result)

    def status(self, result: Taken) -> int:
        """1 if anything could not be read, or is blocked."""
        return int(result.problems.count > 0 or result.blocked > 0)
