"""``import``: bring lists, Scrapy's jobs and other stores into a job."""

from __future__ import annotations

from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bloomdupe.cli.change.change_verb import blocked_in_words
from bloomdupe.cli.change.urls_argument import opened, size_of_file
from bloomdupe.cli.progress_bar import bytes_of, counted
from bloomdupe.cli.verb import Verb
from bloomdupe.crawl.progress.pace import plural
from bloomdupe.errors import StoreError
from bloomdupe.jobs import engine_of, open_job
from bloomdupe.store.store import Store

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable, Iterator

    from bloomdupe.jobs.job_contract import Job
    from bloomdupe.jobs.receiver import Imported, Source
    from bloomdupe.moving.scrapy_redis_job import RedisJob


class Import(Verb["Imported"]):
    """Imports pending requests, and seen URLs."""

    name = "import"
    help = "add lists of URLs, or a job of Scrapy's, scrapy-redis' or bloomdupe's"
    description = (
        "Import SOURCE into a job: a file with a URL or a JSON object on each line (-"
        " is standard input); the store of another job that does not run; a JOBDIR"
        " that Scrapy's own scheduler has closed in good order; or the URL of a Redis"
        " (redis://, rediss://, redis+sentinel://, unix://) on which scrapy-redis has"
        " run the crawl. The last three give the"
        " pending requests and"
        " the seen URLs, so that the crawl goes on here. Without SOURCE, the job of"
        " Scrapy in STORE itself is imported. Nothing in SOURCE is changed. Requests"
        " that cannot be read are printed, and the exit code is 1; the rest is"
        " added. The job must not be running. The job is written every few thousand"
        " requests: if this is interrupted, run it again; nothing is added twice."
    )
    example = "import crawls/site --spider site"
    needs = "receiver"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the source."""
        parser.add_argument(
            "source",
            nargs="?",
            metavar="SOURCE",
            help="a file, -, a directory, or a URL",
        )
        parser.add_argument(
            "--spider",
            metavar="NAME",
            help="spider of the job, if this begins the job",
        )
        parser.add_argument(
            "--without-marks",
            action="store_true",
            help=(
                "import only the pending requests of a store or a Redis:"
                " pages that are done there may be fetched again"
            ),
        )
        parser.add_argument(
            "--known",
            metavar="URL",
            help=(
                "a page that scrapy-redis has fetched, and no start page; needed only"
                " if no pending request shows which class made the fingerprints"
            ),
        )
        parser.add_argument(
            "--trust-pickles",
            action="store_true",
            help=(
                "read requests that are more than plain values, as Scrapy does: loading"
                " them can run any code that was put there. Without this option they"
                " are printed, and left out"
            ),
        )

    def run(self, options: Namespace) -> Imported:
        """Import it."""
        from bloomdupe.moving.imports import import_into

        job: Job = options.job
        marks, settings = not options.without_marks, options.project_settings
        with (
            _source(options) as source,
            job.receiver(source, settings, options.spider, marks=marks) as receiver,
        ):
            receiver.project.trust_pickles = options.trust_pickles
            return import_into(receiver, source)

    def text(self, result: Imported) -> Iterable[str]:
        """Return the result of the import."""
        yield f"{plural(result.taken_in, 'request')} pending now"
        if result.before:
            yield f"{plural(result.before, 'was', 'were')} imported before"
        if result.seen:
            yield f"{plural(result.seen, 'was', 'were')} seen before: skipped"
        yield from blocked_in_words(result.blocked)
        if result.failures:
            yield f"{result.failures:,} have failed: `bloomdupe list --failed`"
        if result.marks:
            yield f"{plural(result.marks, 'URL counts', 'URLs count')} as seen"
        yield from result.remarks
        if result.problems.count:
            yield f"{result.problems.count:,} could not be read:"
            yield from result.problems.lines()
        if result.owed:
            yield (
                f"{result.owed:,} requests are missing in this job, and a crawl would"
                " end without them. Import again, and they are added as soon as they"
                " can be read; --trust-pickles also reads requests that are more than"
                " plain values"
            )

    def json(self, result: Imported) -> dict[str, Any]:
        """Return the same."""
        return {**vars(result), "problems": result.problems.as_dict()}

    def status(self, result: Imported) -> int:
        """1 if anything could not be read."""
        return int(result.problems.count > 0)


@contextmanager
def _source(options: Namespace) -> Iterator[Source]:
    from bloomdupe.moving.scrapy_job import ScrapyJob
    from bloomdupe.moving.sources import LinesSource, StoreSource

    name = options.job.jobdir if options.source is None else options.source
    marks = not options.without_marks
    directory = Path(name)
    if engine_of(name).has("url"):
        with closing(_of_scrapy_redis(name, options)) as crawl:
            yield crawl
    elif name == "-" or not directory.is_dir():
        with opened(name) as file, bytes_of(size_of_file(file)) as read:
            yield LinesSource(file, file, read)
    elif options.source is not None and _is_store(directory):
        with closing(
            StoreSource(open_job(name).directory, counted, marks=marks)
        ) as source:
            yield source
    elif ScrapyJob.is_there(directory):
        yield ScrapyJob(directory, counted, trust_pickles=options.trust_pickles)
    else:
        raise StoreError(f"{name} is a directory without a job")


def _is_store(directory: Path) -> bool:
    """Whether the job in a directory is a store of bloomdupe, not a job of Scrapy."""
    from bloomdupe.moving.scrapy_job import ScrapyJob

    place = open_job(str(directory)).new_directory
    if place == directory and ScrapyJob.is_there(directory):
        return False
    return Store.exists(place)


def _of_scrapy_redis(url: str, options: Namespace) -> RedisJob:
    from bloomdupe.moving.scrapy_redis_job import RedisJob

    return RedisJob(
        url,
        options.job.project(options.project_settings, options.spider),
        counted,
        marks=not options.without_marks,
        known=options.known,
        trust_pickles=options.trust_pickles,
    )
