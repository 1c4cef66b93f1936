"""``verify``: check a store and change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.cli.progress_bar import bytes_read
from bloomdupe.cli.table import table
from bloomdupe.cli.verb import Verb
from bloomdupe.frontier.agreement import disagreements
from bloomdupe.store.format import last_backup
from bloomdupe.store.lmdb.check import verify

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable


class Verification(NamedTuple):
    """A store, its records by database, and its faults."""

    store: str
    records: dict[str, int]
    problems: list[str]


class Verify(Verb[Verification]):
    """Reads all of a store and reports its faults."""

    name = "verify"
    help = "check a store and change nothing"
    description = (
        "Read all of a store and report its faults. Nothing is changed. No crawl"
        " may be running. The exit code is 1 if there is a fault."
    )
    example = "verify crawls/site"
    needs = "directory"
    store_required = False

    def run(self, options: argparse.Namespace) -> Verification:
        """Read it; if the bytes are sound, check that the records agree."""
        store = options.job.directory
        with bytes_read(store) as read:
            report = verify(store, read)
        problems = report.problems or disagreements(report)
        return Verification(str(store), report.counts, problems)

    def text(self, result: Verification) -> Iterable[str]:
        """Return the records, the faults, and the remedy."""
        store, records, problems = result
        rows = [("store", store)]
        rows += [(f"  {name}", f"{count:,} records") for name, count in records.items()]
        yield from table(rows)
        yield from problems
        if problems:
            yield f"Damaged: {last_backup(store)}."
        else:
            yield "Everything is as it was written."

    def status(self, result: Verification) -> int:
        """Return 1 if there is a fault."""
        return int(bool(result.problems))
