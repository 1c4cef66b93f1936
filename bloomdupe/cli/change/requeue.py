"""``requeue``: fetch pages again that are done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.cli.change.failed_arguments import add_failed, reasons_of
from bloomdupe.cli.change.selection_arguments import add_selection
from bloomdupe.cli.change.taken import as_json, in_words
from bloomdupe.cli.change.urls_argument import (
    add_request_options,
    add_urls,
    given_lines,
)
from bloomdupe.cli.progress import counted
from bloomdupe.cli.store_argument import add_store, store_directory
from bloomdupe.cli.verb import Verb
from bloomdupe.errors import SettingError
from bloomdupe.frontier.pending_requests import count_pending, pending_requests
from bloomdupe.jobs.selection import Selection

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from bloomdupe.jobs.intake import Taken

__all__ = ["Requeue"]


class Requeue(Verb["Taken"]):
    """Adds requests that the job has seen before."""

    name = "requeue"
    help = "pages that are done or have failed, to be fetched again"
    description = (
        "Let a job fetch pages again that are done. A job does not know the URLs of"
        " what is done, so they have to be given; --slot and --pattern choose among"
        " them. What waits already is left as it is, and what was never seen is not"
        " taken in: `add` is for that. With --failed, requests that have given up wait"
        " again, with all their retries, and no URLs are to be given. All of it is one"
        " transaction. The job must not be running."
    )
    example = "requeue crawls/site https://example.com/a --callback parse_item"

    def add_arguments(
        self, parser: argparse.ArgumentParser, jobdir: str | None
    ) -> None:
        """Add the store, the URLs, and the options of their requests."""
        add_store(parser, jobdir, needed=True)
        add_urls(parser)
        add_selection(parser)
        add_failed(parser, "what has given up, instead of URLs")
        add_request_options(parser)

    def run(self, options: argparse.Namespace) -> Taken:
        """Add the requests."""
        from bloomdupe.jobs.failed import requeue_failed
        from bloomdupe.jobs.intake import Taken, requeue
        from bloomdupe.jobs.on_disk import StoppedJob
        from bloomdupe.jobs.written import Defaults, read_all

        taken = Taken()
        selection = Selection.of(options.slot, options.pattern)
        reasons = reasons_of(options)
        if reasons is not None and (options.urls or options.file is not None):
            raise SettingError("--failed goes without URLs and --from")
        path = store_directory(options.store)
        with StoppedJob.open(path, options.project_settings) as job:
            if reasons is not None:
                requeue_failed(job, selection, reasons, taken)
                return taken
            job.project.check_callback(options.callback)
            defaults = Defaults(options.callback, options.priority)
            lines = given_lines(options, taken.problems)
            found = read_all(lines, defaults, job.project, taken.problems)
            waits = counted(
                pending_requests(job.store), count_pending(job.store), "requests"
            )
            requeue(found, job, waits, selection, taken)
        return taken

    def text(self, result: Taken) -> Iterable[str]:
        """Return the counts of requests by result."""
        return in_words(result)

    def json(self, result: Taken) -> dict[str, Any]:
        """Return the counts."""
        return as_json(result)

    def status(self, result: Taken) -> int:
        """1 if anything could not be read, was never seen, or is blocked."""
        return int(result.problems.count + result.unseen + result.blocked > 0)
