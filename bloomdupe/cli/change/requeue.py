"""``requeue``: fetch pages again that are done."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from bloomdupe.cli.change.adding_verb import AddingVerb
from bloomdupe.cli.change.selection_arguments import (
    add_failed,
    add_selection,
    reasons_of,
)
from bloomdupe.cli.change.urls_argument import (
    add_request_options,
    add_urls,
    check_named,
)
from bloomdupe.cli.progress_bar import counted
from bloomdupe.errors import SettingError
from bloomdupe.jobs.selection import Selection

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from bloomdupe.jobs.added import Added


class Requeue(AddingVerb):
    """Adds requests that the job has seen before."""

    name = "requeue"
    help = "fetch pages again that are done or have failed"
    description = (
        "Make pages pending again that are done, in a job that does not run. A job does"
        " not keep the URLs of pages that are done, so name them; --slot and --pattern"
        " select among them. Pending requests are left as they are, and URLs that were"
        " never seen are not added: use `add` for them. With --failed, failed requests"
        " become pending again, with all their retries, and no URLs are named. On disk"
        " all of it is one transaction, on Redis one for each partition. If the job"
        " runs, stop it, requeue, and start it again: it goes on where it was."
    )
    example = "requeue crawls/site https://example.com/a --callback parse_item"
    needs = "changing"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the URLs, and the options of their requests."""
        add_urls(parser)
        add_selection(parser)
        add_failed(parser, "failed requests, instead of URLs")
        add_request_options(parser)

    def run(self, options: Namespace) -> Added:
        """Add the requests."""
        from bloomdupe.jobs.added import Added
        from bloomdupe.jobs.adding import requeue

        added = Added()
        selection = Selection.of(options.slot, options.pattern)
        reasons = reasons_of(options)
        if reasons is None:
            check_named(options)
        elif options.urls or options.file is not None:
            raise SettingError("--failed goes without URLs and --from")
        settings = options.project_settings
        opened = options.job.changing(settings, counted, by_url=True)
        with closing(opened) as job:
            if reasons is None:
                found = self.found(options, job.project, added)
                requeue(found, job, selection, added)
            else:
                job.requeue_failed(selection, reasons, added)
        return added
