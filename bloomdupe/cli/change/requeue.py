"""``requeue``: fetch pages again that are done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.cli.change.added_counts import as_json, in_words
from bloomdupe.cli.change.selection_arguments import (
    add_failed,
    add_selection,
    reasons_of,
)
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
from bloomdupe.crawl.changes.selection import Selection
from bloomdupe.errors import SettingError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from bloomdupe.jobs.on_disk.adding import Added

__all__ = ["Requeue"]


class Requeue(Verb["Added"]):
    """Adds requests that the job has seen before."""

    name = "requeue"
    help = "fetch pages again that are done or have failed"
    description = (
        "Make pages pending again that are done. A job does not keep the URLs of pages"
        " that are done, so name them; --slot and --pattern select among them. Pending"
        " requests are left as they are, and URLs that were never seen are not added:"
        " use `add` for them. With --failed, failed requests become pending again, with"
        " all their retries, and no URLs are named. All of it is one transaction. The"
        " job must not be running."
    )
    example = "requeue crawls/site https://example.com/a --callback parse_item"
    needs = "directory"

    def add_arguments(
        self, parser: argparse.ArgumentParser, jobdir: str | None
    ) -> None:
        """Add the store, the URLs, and the options of their requests."""
        add_store(parser, jobdir, self, required=True)
        add_urls(parser)
        add_selection(parser)
        add_failed(parser, "failed requests, instead of URLs")
        add_request_options(parser)

    def run(self, options: argparse.Namespace) -> Added:
        """Add the requests."""
        from bloomdupe.jobs.on_disk.adding import Added, requeue, requeue_failed
        from bloomdupe.jobs.on_disk.changing import Changing
        from bloomdupe.jobs.request_line import Defaults, read_all

        added = Added()
        selection = Selection.of(options.slot, options.pattern)
        reasons = reasons_of(options)
        if reasons is not None and (options.urls or options.file is not None):
            raise SettingError("--failed goes without URLs and --from")
        if reasons is None:
            check_named(options)
        path = options.job.directory
        with Changing(path, options.project_settings, warn, counted) as job:
            if reasons is not None:
                requeue_failed(job, selection, reasons, added)
                return added
            job.project.check_callback(options.callback)
            defaults = Defaults(options.callback, options.priority)
            lines = given_lines(options, added.problems)
            found = read_all(lines, defaults, job.project, added.problems)
            requeue(found, job, selection, added)
        return added

    def text(self, result: Added) -> Iterable[str]:
        """Return the counts of requests by result."""
        return in_words(result)

    def json(self, result: Added) -> dict[str, Any]:
        """Return the counts."""
        return as_json(result)

    def status(self, result: Added) -> int:
        """1 if anything could not be read, was never seen, or is blocked."""
        return int(result.problems.count + result.unseen + result.blocked > 0)
