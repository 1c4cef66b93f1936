"""``union``: mark the URLs that other jobs have seen as seen."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.cli.progress_bar import counted
from bloomdupe.cli.verb import Verb
from bloomdupe.crawl.progress.pace import plural
from bloomdupe.errors import StoreMismatchError
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.frontier.pending_requests import recorded
from bloomdupe.jobs import open_job

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable
    from pathlib import Path


class United(NamedTuple):
    """URLs before and after, and the requests pending in the other jobs."""

    before: int
    after: int
    waiting: dict[str, int]
    """Pending requests of each other store that has any."""


class Union(Verb[United]):
    """Adds filters to a filter."""

    name = "union"
    help = "mark the URLs that other jobs have seen as seen"
    description = (
        "Add the filters of other stores to the filter of STORE: URLs that they have"
        " seen count as seen here. All filters must have the same parameters and key,"
        " as those of a store and its backups, or of a job that `import` has made from"
        " an export. Requests that are pending there count as seen, too, and are not"
        " pending here: use `import` for both. The number of URLs becomes an estimate."
        " The job must not be running. This takes several transactions; if it is"
        " interrupted, run it again."
    )
    example = "union crawls/site backups/monday backups/tuesday"
    needs = "directory"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the other stores."""
        parser.add_argument(
            "others",
            nargs="+",
            metavar="OTHER",
            help="the JOBDIR or store of another job",
        )

    def run(self, options: Namespace) -> United:
        """Add the filters in turn, after all have been checked."""
        path = options.job.directory
        others = [open_job(other).directory for other in options.others]
        if path in others:
            raise StoreMismatchError(f"{path} cannot be united with itself")
        waiting = {}
        with ExitStack() as stack:
            seen = stack.enter_context(BloomFilter.open(path))
            before = len(seen)
            filters = []
            for other in others:
                theirs = stack.enter_context(
                    BloomFilter.open(other, readonly=True, allow_network_fs=True)
                )
                filters.append(theirs)
                pending = _check(seen, path, theirs, other)
                if pending:
                    waiting[str(other)] = pending
            for theirs in counted(filters, len(filters), "stores"):
                seen |= theirs
            return United(before, len(seen), waiting)

    def text(self, result: United) -> Iterable[str]:
        """Return the number of URLs, and the requests that were left out."""
        yield f"{result.before:,} URLs before, about {result.after:,} now"
        for other, waiting in result.waiting.items():
            yield (
                f"{other}: {plural(waiting, 'request')} pending there count as seen"
                " here now"
            )


def _check(seen: BloomFilter, path: Path, theirs: BloomFilter, other: Path) -> int:
    """Refuse a filter that does not fit; return the number of pending requests."""
    mine, his = seen.identity, theirs.identity
    name = "fingerprinter"
    if mine.get(name) != his.get(name):
        raise StoreMismatchError(
            f"{other} was made with {name} = {his.get(name)!r}, {path} with"
            f" {mine.get(name)!r}: their fingerprints of the same URL differ"
        )
    if not seen.is_compatible(theirs):
        raise StoreMismatchError(
            f"the filters of {path} and {other} were made with other parameters, or"
            " another secret key, as every new filter has: they cannot be joined"
        )
    return recorded(theirs.record("frontier"))
