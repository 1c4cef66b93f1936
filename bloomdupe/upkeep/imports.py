"""Imports: requests and marks that come from elsewhere, into a job.

The ledger of failures comes first, as a whole, for what this job has seen by itself is
left out of it. Then come requests, and then marks, in one transaction for every few
thousand of them. In each of these the note ``import`` of the filter says how far it is,
so an import that was interrupted goes on where it was, and nothing is taken in twice.
Until then no crawl of the job begins.

What counts is the place of a request in the source, whether it can be read or not. If
it cannot, it is owed: an import of the same source that can read it, such as one with
``--trust-pickles``, takes it in. The note is a JSON object:

``source``  what tells the source from others
``taken``   places that are done with, but for those that are owed
``base``    what the ages of its requests are added to
``done``    whether all of it is
``marked``  whether what the source has seen is marked, so its requests are, too
``owed``    how many of the places are owed
``places``  which ones (:class:`~bloomdupe.upkeep.owed.Owed`)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from bloomdupe.crawl.run import IMPORT
from bloomdupe.upkeep.lines import Problems
from bloomdupe.upkeep.owed import Owed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from scrapy import Request

    from bloomdupe.crawl.failure import Failure
    from bloomdupe.filter.bloom import BloomFilter
    from bloomdupe.upkeep.project import Project
    from bloomdupe.upkeep.written import Wanted

__all__ = ["Imported", "Receiver", "Source", "begun_elsewhere", "import_into"]


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
    owed: int = 0
    """Requests that are missing in the job, as if they were done: they could not be
    read, here or by an earlier import of this source."""
    marks: int = 0
    """Fingerprints, or URLs of a filter, that count as seen now."""
    remarks: list[str] = field(default_factory=list)
    """What is not taken over, and what to do."""
    problems: Problems = field(default_factory=Problems)


class Receiver(Protocol):
    """What takes requests and marks over: a job in a JOBDIR, or one that is shared."""

    project: Project

    @property
    def notes(self) -> dict[str, Any]:
        """What is durable with the next :meth:`commit`."""

    @property
    def scratch(self) -> Path:
        """A directory that is not there, and may be made in between."""

    @property
    def sequence(self) -> int:
        """How many requests it has ever taken in; ages begin there."""

    @property
    def due(self) -> bool:
        """Whether it is time to commit."""

    def blocks(self, request: Request, slot: str) -> bool:
        """Whether a rule keeps a request of this slot out."""

    def take_over(self, one: Wanted, place: int, *, in_any_case: bool) -> bool:
        """Let a request wait, which stands at a place of the source.

        False if it was seen before, unless it is to be taken ``in_any_case``.
        """

    def take_in_failures(self, found: Iterable[tuple[bytes, Failure]]) -> int:
        """Take over what has failed elsewhere; return how many."""

    def mark(self, fingerprint: bytes) -> None:
        """Let a fingerprint count as seen."""

    def merge(self, seen: BloomFilter) -> int:
        """Let all count as seen that a filter has; return how many URLs that is."""

    def commit(self) -> None:
        """Make it durable."""

    def complete(self, imported: Imported) -> None:
        """Correct what was said at first, and say what there is to know, at the end."""


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

    def requests(self, job: Receiver, problems: Problems) -> Iterator[Wanted]:
        """Yield the requests, always in the same order.

        One that cannot be read is one problem, at its place.
        """

    def take_marks(self, job: Receiver, imported: Imported) -> None:
        """Take over what was seen, and how far the crawl is."""


def import_into(job: Receiver, source: Source) -> Imported:
    """Take over what a source has; what was seen before is dropped."""
    imported = Imported()
    note = job.notes.get(IMPORT)
    if note is None or note["source"] != source.identity:
        note = {
            "source": source.identity,
            "taken": 0,
            "base": job.sequence,
            "done": False,
        }
    job.notes[IMPORT] = note
    job.commit()
    failures = source.failures(imported.problems)
    imported.failures = job.take_in_failures(failures)
    _take_requests(job, source, note, imported)
    job.commit()
    source.take_marks(job, imported)
    note["done"] = True
    job.commit()
    if note.get("marked"):
        imported.owed = note["owed"]
    job.complete(imported)
    return imported


def _take_requests(
    job: Receiver, source: Source, note: dict[str, Any], imported: Imported
) -> None:
    owed = Owed(note.get("places", ""))
    found = source.requests(job, imported.problems)
    for place, one in enumerate(_by_place(found, imported.problems)):
        was_owed = place in owed
        if place < note["taken"] and not was_owed:
            imported.before += one is not None
            continue
        if one is None:
            owed.add(place)
        else:
            owed.discard(place)
            in_any_case = was_owed and bool(note.get("marked"))
            _take(job, one, place, imported, in_any_case=in_any_case)
        note["taken"] = max(note["taken"], place + 1)
        if job.due:
            note.update(owed=len(owed), places=owed.text)
            job.commit()
    note.update(owed=len(owed), places=owed.text)


def _by_place(
    requests: Iterator[Wanted], problems: Problems
) -> Iterator[Wanted | None]:
    """Yield the requests, and None for each that has become a problem."""
    known = problems.count
    for one in chain(requests, [None]):
        for _ in range(problems.count - known):
            yield None
        known = problems.count
        if one is not None:
            yield one


def _take(
    job: Receiver,
    one: Wanted,
    place: int,
    imported: Imported,
    *,
    in_any_case: bool,
) -> None:
    if job.blocks(one.request, one.slot):
        imported.blocked += 1
    elif job.take_over(one, place, in_any_case=in_any_case):
        imported.taken_in += 1
    else:
        imported.seen += 1


def begun_elsewhere(job: Receiver, notes: dict[str, Any]) -> None:
    """Take note that this crawl was begun elsewhere, unless it has begun here.

    So its start requests are not done again, if they are marked. ``notes`` are those
    of the other job, whose own imports are none of this one.
    """
    job.notes[IMPORT]["marked"] = True
    if "run" not in job.notes:
        theirs = {name: note for name, note in notes.items() if name != IMPORT}
        job.notes.update({"run": "imported"} | theirs)
