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
from bloomdupe.cli.progress_bar import counted

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from bloomdupe.jobs.added import Added


class Add(AddingVerb):
    """Adds requests that the job has not seen."""

    name = "add"
    help = "add URLs that a job has not seen"
    description = (
        "Add URLs to a job, unless it has seen them; use `requeue` for URLs that it has"
        " seen. Added requests come after the other pending requests of their priority,"
        " like start requests, in the given order. Lines that are no URLs are printed"
        " with their numbers, and the exit code is 1; all other lines are added. A"
        " running crawl takes them in at its next checkpoint, and logs their numbers;"
        " on Redis, its workers do so within a second or two. The job is written every"
        " thousand requests: if this is interrupted, run it again."
    )
    example = "add crawls/site --from urls.txt --callback parse_item"
    needs = "changing"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the URLs, and the options of their requests."""
        add_urls(parser)
        add_request_options(parser)
        parser.add_argument(
            "--spider",
            metavar="NAME",
            help="spider of the job, if this begins the job",
        )

    def run(self, options: Namespace) -> Added:
        """Add the requests."""
        from bloomdupe.jobs.added import Added
        from bloomdupe.jobs.adding import add

        check_named(options)
        added, settings, spider = Added(), options.project_settings, options.spider
        opened = options.job.changing(
            settings, counted, by_url=True, adding=True, spider=spider
        )
        with closing(opened) as job:
            add(self.found(options, job.project, added, start=True), job, added)
        return added
