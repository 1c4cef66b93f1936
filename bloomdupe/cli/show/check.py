"""``check``: whether a job has seen URLs, and whether they are pending."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.cli.change.urls_argument import add_urls, check_named, given_lines
from bloomdupe.cli.progress_bar import counted
from bloomdupe.cli.verb import Verb
from bloomdupe.crawl.leases.failure import in_words
from bloomdupe.crawl.progress.pace import when
from bloomdupe.jobs.lines import Problems

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from bloomdupe.jobs.on_disk.lookup import FoundUrl


class Checked(NamedTuple):
    """The state of each URL, the lines that are no URLs, and the filter's p."""

    urls: list[FoundUrl]
    problems: Problems
    fpp: float


class Check(Verb[Checked]):
    """Looks URLs up in a job's filter and queue, with the job's fingerprinter."""

    name = "check"
    help = "whether a job has seen URLs, and whether they are pending"
    description = (
        "Show for each URL whether the job has seen it, whether it is pending, and"
        " whether it has failed. A URL that is seen and not pending is done, was"
        " removed, or is in progress. The project's fingerprinter decides which URLs"
        " are the same; run this in its folder. Reads the last checkpoint; a crawl may"
        " be running."
    )
    example = "check crawls/site https://example.com/a https://example.com/b"
    needs = "directory"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the URLs."""
        add_urls(parser)

    def run(self, options: argparse.Namespace) -> Checked:
        """Look for them."""
        from bloomdupe.jobs.on_disk.lookup import look_up

        check_named(options)
        problems = Problems()
        urls, fpp = look_up(
            options.job.directory,
            options.project_settings,
            given_lines(options, problems),
            problems,
            counted,
        )
        return Checked(urls, problems, fpp)

    def text(self, result: Checked) -> Iterable[str]:
        """Return a line for each URL, and for each line that is no URL."""
        for one in result.urls:
            if one.waits:
                for found in one.waits:
                    callback = found["callback"] or "no callback"
                    then = found["not_before"]
                    yield (
                        f"pending in {found['slot']}, priority {found['priority']},"
                        f" {callback}{'' if then is None else f', after {when(then)}'}:"
                        f" {one.url}"
                    )
            else:
                state = "seen, not pending" if one.seen else "new"
                if one.failed is not None:
                    reason = in_words(one.failed["reason"], one.failed["status"])
                    state = f"failed ({reason}, {one.failed['times']}x)"
                yield f"{state}: {one.url}"
        yield from result.problems.lines()

    def json(self, result: Checked) -> dict[str, Any]:
        """Return all of it."""
        return {
            "urls": [one._asdict() for one in result.urls],
            "fpp": result.fpp,
            "broken": result.problems.as_dict(),
        }

    def status(self, result: Checked) -> int:
        """Return 1 if any line was no URL."""
        return int(result.problems.count > 0)
