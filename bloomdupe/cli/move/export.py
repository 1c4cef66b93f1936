"""``export``: write a job as lines of JSON, which ``import`` reads."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.cli.progress_bar import counted
from bloomdupe.cli.verb import Verb
from bloomdupe.crawl.progress.pace import plural
from bloomdupe.errors import StoreError
from bloomdupe.store.files import write_file

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Generator, Iterable, Iterator

    from bloomdupe.jobs.job_contract import Job
    from bloomdupe.moving.export import Exported


class WrittenExport(NamedTuple):
    """The result of an export, and its place."""

    file: str
    exported: Exported
    lines: Iterator[str]
    """Lines for standard output, which are not written yet."""


class Export(Verb[WrittenExport]):
    """Writes pending requests, and the filter."""

    name = "export"
    help = "write a job as lines of JSON, which `import` reads"
    description = (
        "Write a job to FILE as JSON, one object on each line: the parameters of the"
        " store, the failed requests, the pending requests, and the filter. `import`"
        " reads it, in another place or another version. A filter cannot list its URLs,"
        " so its pages are written as bytes. Left out are cookies, spider.state,"
        " counts, and the positions in output files; use `backup` for these. FILE holds"
        " the filter's secret key, and the requests as they are: only its owner can"
        " read it. A crawl may be running; a crawl on Redis must not."
    )
    example = "export crawls/site site.jsonl"
    needs = "stored"
    json_indent = None

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the file."""
        parser.add_argument("file", metavar="FILE", help="- is standard output")
        parser.add_argument(
            "--without-marks",
            action="store_true",
            help=(
                "leave out the seen URLs of a crawl on Redis: pages that are done may"
                " be fetched again after the import"
            ),
        )

    def run(self, options: Namespace) -> WrittenExport:
        """Write it; the file appears when it is complete."""
        from bloomdupe.moving.export import Exported

        exported = Exported()
        lines = _lines(options, exported)
        if options.file == "-":
            return WrittenExport(options.file, exported, lines)
        with closing(lines):
            _write(Path(options.file), lines)
        return WrittenExport(options.file, exported, lines)

    def text(self, result: WrittenExport) -> Iterable[str]:
        """Return the size of the export; or the export itself."""
        exported = result.exported
        if result.file == "-":
            yield from result.lines
            return
        yield (
            f"{result.file}: {plural(exported.requests, 'request')},"
            f" {exported.failures:,} that have failed, and a filter of"
            f" {plural(exported.urls, 'URL')} in {plural(exported.records, 'record')}"
        )
        if exported.pickled:
            yield (
                f"{exported.pickled:,} of the requests are pickles, which `import` does"
                " not take from a file"
            )

    def json(self, result: WrittenExport) -> dict[str, Any] | Iterator[dict[str, Any]]:
        """Return the same."""
        if result.file == "-":
            return map(json.loads, result.lines)
        return {"file": result.file, **asdict(result.exported)}


def _lines(options: Namespace, exported: Exported) -> Generator[str, None, None]:
    from bloomdupe.moving.export import export

    job: Job = options.job
    beside = None if options.file == "-" else Path(options.file).parent
    with job.stored(beside, counted, marks=not options.without_marks) as store:
        yield from export(store, exported, counted)


def _write(place: Path, lines: Iterable[str]) -> None:
    try:
        write_file(place, (f"{line}\n".encode() for line in lines))
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"cannot write {place}: {error}") from error
