"""``report``: write a page about a job, to look at and to keep."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.cli.output import write
from bloomdupe.cli.verb import Verb
from bloomdupe.errors import BloomDupeError, SettingError
from bloomdupe.monitoring.extra import need
from bloomdupe.store.files import write_file

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable

    from bloomdupe.jobs.job_contract import Job


class WrittenPage(NamedTuple):
    """A page, and its size in bytes."""

    page: str
    bytes: int


class Report(Verb[WrittenPage]):
    """Writes a page with charts."""

    name = "report"
    help = "write a page with charts about a job"
    description = (
        "Write one page that loads no other files: pages and rate over all runs, with"
        " kills and resumes, pending requests, status codes, depth, hosts, duplicates,"
        " filter, checkpoints, failed requests. Reads the last checkpoint; a crawl may"
        " be running. The page of a crawl that workers share on Redis shows workers and"
        " partitions, too. Needs bloomdupe[report]."
    )
    example = "report crawls/site -o report.html"
    needs = "reader"
    store_required = False
    json_indent = None

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the file."""
        parser.add_argument(
            "-o",
            "--output",
            default="report.html",
            metavar="FILE",
            help="the page (default: report.html); - is standard output",
        )

    def run(self, options: Namespace) -> WrittenPage:
        """Write it; an existing page is replaced when the new page is complete."""
        page = _page(options.job).encode()
        if options.output == "-":
            if options.json:
                raise SettingError("--output -: --json needs a file for the page")
            write(page)
            return WrittenPage("-", len(page))
        target = Path(options.output)
        if target.is_dir():
            raise SettingError(f"--output {target}: it is a directory; name a file")
        try:
            write_file(target, [page], mode=0o666)
        except OSError as error:
            raise BloomDupeError(f"--output {target}: {error.strerror}") from error
        return WrittenPage(options.output, len(page))

    def text(self, result: WrittenPage) -> Iterable[str]:
        """Return the place of the page."""
        if result.page != "-":
            yield f"{result.page}: {result.bytes:,} bytes"


def _page(job: Job) -> str:
    with job.reader() as reader:
        view = reader.read()
    need("matplotlib", "report", "bloomdupe report")
    from bloomdupe.monitoring.report import report

    return report(view, job.describe().as_dict())
