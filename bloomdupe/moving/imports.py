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
``places``  which ones (:class:`~bloomdupe.moving.owed.Owed`)
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.progress.rounds import IMPORT
from bloomdupe.jobs.receiver import Imported
from bloomdupe.moving.owed import Owed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bloomdupe.jobs.lines import Problems
    from bloomdupe.jobs.receiver import Receiver, Source
    from bloomdupe.jobs.written import Wanted

__all__ = ["begun_elsewhere", "import_into"]


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
