"""Imports: brings requests and marks of a source into a job.

Failed requests come first, all together, without those that this job has seen by
itself: later, the requests and marks of the source would count as seen, too. Requests
follow, and then marks, in transactions of a few thousand each. Each transaction records
the position in the note ``import`` of the filter. So an interrupted import goes on at
its position, and nothing is imported twice. No crawl of the job begins before the
import is complete.

The import counts places in the source, whether their requests can be read or not. The
place of an unreadable request is kept: another import of the same source that can read
the request, for example with ``--trust-pickles``, adds it. The note is a JSON object:

``source``  a text that identifies the source
``taken``   number of places that were passed, unread places included
``base``    added to the ages of the source's requests
``done``    whether the import is complete
``marked``  whether the marks of the source, and so of its requests, are imported
``owed``    number of unread places
``places``  the unread places (:class:`UnreadPlaces`)
"""

from __future__ import annotations

import base64
import zlib
from itertools import chain
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.progress.rounds import IMPORT
from bloomdupe.foreign import LARGEST, inflated
from bloomdupe.jobs.receiver import Imported

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bloomdupe.jobs.lines import Problems
    from bloomdupe.jobs.receiver import Receiver, Source
    from bloomdupe.jobs.request_line import Wanted

__all__ = ["begun_elsewhere", "import_into", "mark_all"]


def import_into(job: Receiver, source: Source) -> Imported:
    """Import a source; skip requests and marks that the job has seen."""
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
    unread = UnreadPlaces(note.get("places", ""))
    found = source.requests(job.project, imported.problems)
    for place, one in enumerate(_by_place(found, imported.problems)):
        was_unread = place in unread
        if place < note["taken"] and not was_unread:
            imported.before += one is not None
            continue
        if one is None:
            unread.add(place)
        else:
            unread.discard(place)
            in_any_case = was_unread and bool(note.get("marked"))
            _take(job, one, place, imported, in_any_case=in_any_case)
        note["taken"] = max(note["taken"], place + 1)
        if job.due:
            note.update(owed=len(unread), places=unread.text)
            job.commit()
    note.update(owed=len(unread), places=unread.text)


def _by_place(
    requests: Iterator[Wanted], problems: Problems
) -> Iterator[Wanted | None]:
    """Yield the requests, and None for each request that has become a problem."""
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
    if job.blocks(one.slot, one.payload):
        imported.blocked += 1
    elif job.take_over(one, place, in_any_case=in_any_case):
        imported.taken_in += 1
    else:
        imported.seen += 1


def begun_elsewhere(job: Receiver, notes: dict[str, Any]) -> None:
    """Record that this crawl began in another job, unless it has run here.

    Its start requests are then not made again, if they are marked. ``notes`` are those
    of the other job; the notes on its own imports are left out.
    """
    job.notes[IMPORT]["marked"] = True
    if "run" not in job.notes:
        theirs = {name: note for name, note in notes.items() if name != IMPORT}
        job.notes.update({"run": "imported"} | theirs)


def mark_all(job: Receiver, imported: Imported, fingerprints: Iterable[bytes]) -> None:
    """Mark the fingerprints of another program's crawl as seen."""
    for fingerprint in fingerprints:
        job.mark(fingerprint)
        imported.marks += 1
        if job.due:
            job.commit()
    begun_elsewhere(job, {})


class UnreadPlaces:
    """Places of requests that could not be read so far, counted from 0.

    They are kept as a compressed bitmap, so their note stays small: about a byte for
    five requests if every second place is in it, and next to nothing if few are.
    ``text`` is that of an earlier set.
    """

    def __init__(self, text: str = "") -> None:
        self._bits = bytearray(
            inflated(base64.b64decode(text), LARGEST) if text else b""
        )
        self._count = int.from_bytes(self._bits, "little").bit_count()

    def __len__(self) -> int:
        return self._count

    def __contains__(self, place: int) -> bool:
        byte, bit = divmod(place, 8)
        return byte < len(self._bits) and bool(self._bits[byte] >> bit & 1)

    def add(self, place: int) -> None:
        """Add a place."""
        if place not in self:
            byte, bit = divmod(place, 8)
            self._bits.extend(bytes(max(0, byte + 1 - len(self._bits))))
            self._bits[byte] |= 1 << bit
            self._count += 1

    def discard(self, place: int) -> None:
        """Remove a place."""
        if place in self:
            byte, bit = divmod(place, 8)
            self._bits[byte] ^= 1 << bit
            self._count -= 1

    @property
    def text(self) -> str:
        """The set as a text, empty for an empty set."""
        if not self._count:
            return ""
        return base64.b64encode(zlib.compress(bytes(self._bits))).decode()
