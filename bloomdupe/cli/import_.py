"""``import``: make a job of what Scrapy, or scrapy-redis, has left."""

from __future__ import annotations

from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bloomdupe.cli.progress_bar import counted
from bloomdupe.cli.verb import Verb
from bloomdupe.crawl.progress.pace import plural
from bloomdupe.errors import SettingError, StoreError
from bloomdupe.jobs import engine_of
from bloomdupe.store.place import is_marked

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable, Iterator

    from bloomdupe.jobs.job_contract import Job
    from bloomdupe.jobs.project import Project
    from bloomdupe.moving.imports import Imported, Source


class Import(Verb["Imported"]):
    """Imports pending requests, and seen URLs."""

    name = "import"
    help = "make a job of what Scrapy's own scheduler, or scrapy-redis, has left"
    description = (
        "Make a job of the pending requests and the seen URLs in SOURCE: a JOBDIR that"
        " Scrapy's own scheduler has closed in good order, or the URL of a Redis"
        " (redis://, rediss://, redis+sentinel://, unix://) on which scrapy-redis has"
        " run the crawl. Without SOURCE, the job of Scrapy in STORE itself is"
        " imported. Requests that cannot be read are printed and left out, and the"
        " exit code is 1. If this is interrupted, there is no job: run it again."
    )
    example = "import crawls/site --spider site --trust-pickles"
    needs = "new_directory"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the source."""
        parser.add_argument(
            "source", nargs="?", metavar="SOURCE", help="a JOBDIR, or a URL"
        )
        parser.add_argument("--spider", metavar="NAME", help="spider of the job")
        parser.add_argument(
            "--trust-pickles",
            action="store_true",
            help=(
                "load pending requests and spider.state, as Scrapy does: this can run"
                " any code that was put there"
            ),
        )
        parser.add_argument(
            "--fingerprints-only",
            action="store_true",
            help=(
                "import the seen URLs, which runs no code; pages that are pending count"
                " as seen, too, and are not fetched"
            ),
        )

    def run(self, options: Namespace) -> Imported:
        """Import it."""
        from bloomdupe.jobs.project import Project
        from bloomdupe.moving.imports import import_into

        job: Job = options.job
        path = job.new_directory
        project = Project.of_job(
            options.project_settings, options.spider, None, str(path)
        )
        if not project.known:
            raise SettingError(
                f"--spider {options.spider!r}: its callbacks are needed, so call this"
                " in the folder of its project"
            )
        with _source(options.source or job.jobdir, project) as source:
            return import_into(
                path,
                project,
                source,
                counted,
                trusted=options.trust_pickles,
                only_seen=options.fingerprints_only,
            )

    def text(self, result: Imported) -> Iterable[str]:
        """Return the result of the import."""
        yield f"{plural(result.taken_in, 'request')} pending now"
        yield f"{plural(result.marks, 'URL counts', 'URLs count')} as seen"
        yield from result.remarks
        if result.problems.count:
            yield f"{result.problems.count:,} could not be read:"
            yield from result.problems.lines()
            yield (
                "SOURCE still has them: mend what is named, call `bloomdupe reset`, and"
                " import again"
            )

    def json(self, result: Imported) -> dict[str, Any]:
        """Return the same."""
        return {**vars(result), "problems": result.problems.as_dict()}

    def status(self, result: Imported) -> int:
        """1 if anything could not be read."""
        return int(result.problems.count > 0)


@contextmanager
def _source(name: str, project: Project) -> Iterator[Source]:
    from bloomdupe.moving.scrapy_job import ScrapyJob

    directory = Path(name)
    if engine_of(name).has("url"):
        from bloomdupe.moving.scrapy_redis_job import RedisJob

        with closing(RedisJob(name, project)) as crawl:
            yield crawl
    elif ScrapyJob.is_there(directory):
        yield ScrapyJob(directory)
    elif not directory.is_dir():
        raise StoreError(
            f"{name} is no directory: `bloomdupe add --from` reads a list of URLs"
        )
    elif any(map(is_marked, (directory, directory / "bloomdupe"))):
        raise StoreError(
            f"{name} is a job of bloomdupe: `bloomdupe backup` copies it, and"
            " `bloomdupe list --json` lists its requests for `bloomdupe add --from`"
        )
    else:
        raise StoreError(f"{name} is a directory without a job")
