"""Imports: requests and marks that come from elsewhere, into a job.

The ledger of failures comes first, as a whole, for what this job has seen by itself is
left out of it. Then come requests, and then marks, in one transaction for every few
thousand of them. In each of these the note ``import`` of the filter says how far it is,
so an import that was interrupted goes on where it was, and nothing is taken in twice.
Until then no crawl of the job begins. The note is a JSON object:

``source``  what tells the source from others
``taken``   requests that are done with
``base``    what the ages of its requests are added to
``done``    whether all of it is
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from bloomdupe.crawl.run import IMPORT
from bloomdupe.upkeep.failed_elsewhere import take_in_failures
from bloomdupe.upkeep.lines import Problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bloomdupe.crawl.failure import Failure
    from bloomdupe.upkeep.job import StoppedJob
    from bloomdupe.upkeep.written import Wanted

__all__ = ["Imported", "Source", "begun_elsewhere", "import_into"]


@dataclass
class Imported:
    """What became of a source."""

    taken_in: int = 0
    """Requests that wait now."""
    seen: int = 0
    """Requests that were seen before, and so dropped."""
    blocked: int = 0
    """Requests that a rule of ``bloomdupe block`` keeps out."""
    failures: int = 0
    """Requests that have failed elsewhere, and stand in the ledger now."""
    before: int = 0
    """Requests that an interrupted import had dealt with."""
    marks: int = 0
    """Fingerprints, or URLs of a filter, that count as seen now."""
    remarks: list[str] = field(default_factory=list)
    """What is not taken over, and what to do."""
    problems: Problems = field(default_factory=Problems)


class Source(Protocol):
    """Where requests and marks come from."""

    @property
    def identity(self) -> str:
        """What tells it from others; the same if it is read again."""

    @property
    def header(self) -> dict[str, Any] | None:
        """What its store is, if it is a job of bloomdupe's."""

    def failures(self, problems: Problems) -> Iterator[tuple[bytes, Failure]]:
        """Yield what has failed, under its digest; called before the others."""

    def requests(self, job: StoppedJob, problems: Problems) -> Iterator[Wanted]:
        """Yield the requests, always in the same order."""

    def take_marks(self, job: StoppedJob, imported: Imported) -> None:
        """Take over what was seen, and how far the crawl is."""


def import_into(job: StoppedJob, source: Source) -> Imported:
    """Take over what a source has; what was seen before is dropped."""
    imported = Imported()
    note = job.notes.get(IMPORT)
    if note is None or note["source"] != source.identity:
        note = {
            "source": source.identity,
            "taken": 0,
            "base": job.frontier.sequence,
            "done": False,
        }
    job.notes[IMPORT] = note
    job.commit()
    failures = source.failures(imported.problems)
    imported.failures = take_in_failures(job, failures)
    requests = source.requests(job, imported.problems)
    imported.before = sum(1 for _ in islice(requests, note["taken"]))
    for one in requests:
        sequence = None if one.age is None else note["base"] + one.age
        if job.blocks(one.request, one.slot):
            imported.blocked += 1
        elif job.take_in(one, sequence):
            imported.taken_in += 1
        else:
            imported.seen += 1
        note["taken"] += 1
        if job.frontier.due:
            job.commit()
    job.commit()
    source.take_marks(job, imported)
    note["done"] = True
    job.commit()
    return imported


def begun_elsewhere(job: StoppedJob, notes: dict[str, Any]) -> None:
    """Take note that this crawl was begun elsewhere, unless it has begun here.

    So its start requests are not done again, if they are marked.
    """
    if "run" not in job.notes:
        job.notes.update({"run": "imported"} | notes)
