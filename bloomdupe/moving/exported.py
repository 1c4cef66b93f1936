"""Exported: reads a job from the lines of :mod:`bloomdupe.moving.export`."""

from __future__ import annotations

import base64
import shutil
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.requests.layout import PICKLE
from bloomdupe.errors import StoreError
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.filter.layer import LayerState
from bloomdupe.foreign import inflated, json_of
from bloomdupe.jobs.lines import read_lines
from bloomdupe.jobs.receiver import Source
from bloomdupe.jobs.request_line import UNTRUSTED, Defaults, read_request
from bloomdupe.moving.export import check_format, failure_of
from bloomdupe.moving.imports import begun_elsewhere
from bloomdupe.store import files
from bloomdupe.store.format import CHECKSUM_BYTES, JOURNAL_HEAD, PAGE_BYTES, total_of
from bloomdupe.store.participant import Part
from bloomdupe.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bloomdupe.crawl.leases.failure import Failure
    from bloomdupe.jobs.lines import Line, Lines, Problems
    from bloomdupe.jobs.project import Project
    from bloomdupe.jobs.receiver import Imported, Receiver
    from bloomdupe.jobs.request_line import Wanted
    from bloomdupe.store.batch import Batch

BATCH_RECORDS = 2_000
"""Records that one transaction holds."""
BATCH_BYTES = 16 << 20
"""Bytes of their values."""
_COUNTED = ("journal_end", "journal_entries", "exact", "trials", "false_positives")
"""Numbers in the record of a filter."""


class ExportSource(Source):
    """A file that ``bloomdupe export`` has written.

    ``head`` is its first line. Without ``marks`` only its requests are imported.
    """

    def __init__(
        self, head: str, file: Lines, read: Callable[[int], None], *, marks: bool
    ) -> None:
        try:
            header = json_of(head)
            check_format(header)
            self.header: dict[str, Any] = header["store"]
            self.identity = str(header["id"])
            self._notes: dict[str, Any] = header["notes"]
            identity = self.header["identity"]
            bytes.fromhex(self.header["key"])
            if not (isinstance(self._notes, dict) and isinstance(identity, dict)):
                raise TypeError("notes and identity are objects")  # noqa: TRY301
        except (ValueError, TypeError, KeyError) as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError(
                f"the first line of the export is damaged: {error!r}"
            ) from error
        self.marks = marks
        self._file = file
        self._read = read
        self._lines: Iterator[Line] = iter(())
        self._next: Line | None = None
        self._failures = 0
        self._requests = 0

    def failures(self, problems: Problems) -> Iterator[tuple[bytes, Failure]]:
        """Yield the failed requests."""
        self._lines = read_lines(self._file, problems, self._read)
        self._next = next(self._lines, None)
        while self._next is not None and self._next.text.startswith('{"failure"'):
            self._failures += 1
            try:
                digest, found = failure_of(self._object())
            except (ValueError, TypeError, LookupError) as error:
                where = f"line {self._next.number:,}"
                raise StoreError(f"{where} is damaged: no failure: {error}") from error
            if (found.payload or b"").startswith(PICKLE):
                problems.add(self._next.where, UNTRUSTED)
                found = found._replace(payload=None)
            if self.marks:
                yield digest, found
            self._next = next(self._lines, None)

    def requests(self, project: Project, problems: Problems) -> Iterator[Wanted]:
        """Yield the pending requests."""
        while self._next is not None and self._next.text.startswith('{"url"'):
            self._requests += 1
            line = self._next
            try:
                yield read_request(line.text, Defaults(), project)
            except ValueError as error:
                problems.add(line.where, str(error))
            self._next = next(self._lines, None)

    def take_marks(self, job: Receiver, imported: Imported) -> None:
        """Rebuild the filter in a temporary store, and add it to the job's filter."""
        place = job.scratch
        files.delete_unfinished(place)
        self._rebuild(place)
        try:
            if self.marks:
                with BloomFilter.open(place, readonly=True) as seen:
                    imported.marks = job.merge(seen)
                begun_elsewhere(job, self._notes)
        finally:
            shutil.rmtree(place)

    def _rebuild(self, place: Path) -> None:
        """Make a store of the records in the rest of the lines."""
        number = 0 if self._next is None else self._next.number
        record = self._of("filter")
        if not _is_filter(record):
            raise StoreError(f"line {number:,} is damaged: it describes no filter")
        store = Store.create(place, {"store": self.header, "filter": record})
        count = 0
        try:
            batch: list[tuple[bytes, bytes, bytes]] = []
            size = 0
            while "record" in (given := self._object()):
                count += 1
                batch.append(self._record(given))
                size += len(batch[-1][2])
                if len(batch) == BATCH_RECORDS or size > BATCH_BYTES:
                    store.commit(_records(batch))
                    batch, size = [], 0
                self._next = next(self._lines, None)
            store.commit(_records(batch))
        finally:
            store.close()
        if self._of("end") != {
            "failures": self._failures,
            "requests": self._requests,
            "records": count,
        }:
            raise StoreError(
                "the export is not whole: its numbers of lines differ from the counts"
                " in its last line"
            )

    def _object(self) -> dict[str, Any]:
        if self._next is None:
            raise StoreError(
                "the export is cut off: its last line is missing. Requests added so far"
                " stay; import a whole export, and it goes on"
            )
        try:
            found = json_of(self._next.text)
        except ValueError as error:
            raise StoreError(
                f"line {self._next.number:,} is damaged: {error}"
            ) from error
        return found if isinstance(found, dict) else {}

    def _of(self, name: str) -> dict[str, Any]:
        found = self._object().get(name)
        if not isinstance(found, dict):
            assert self._next is not None  # noqa: S101 - or there was no object
            raise StoreError(
                f"line {self._next.number:,} is damaged: no {name!r} in it"
            )
        self._next = next(self._lines, None)
        return found

    def _record(self, given: dict[str, Any]) -> tuple[bytes, bytes, bytes]:
        try:
            name = str(given["record"]).encode()
            key = bytes.fromhex(given["key"])
            packed = base64.b64decode(given["value"], validate=True)
            value = inflated(packed, _largest(name, packed))
            wrong = bool(total_of(name, [key], [value])[1])
        except (ValueError, TypeError, KeyError):
            wrong = True
        if wrong:
            assert self._next is not None  # noqa: S101 - it was read from there
            raise StoreError(f"line {self._next.number:,} is damaged: no such record")
        return name, key, value


def _is_filter(record: dict[str, Any]) -> bool:
    """Whether a record has the counts and layers that a filter begins with."""
    layers = record.get("layers")
    return (
        all(type(record.get(name)) is int for name in _COUNTED)
        and isinstance(record.get("notes"), dict)
        and isinstance(layers, list)
        and bool(layers)
        and all(
            isinstance(layer, list)
            and len(layer) == len(LayerState._fields)
            and {int, float}.issuperset(map(type, layer))
            and min(layer) >= 0
            for layer in layers
        )
    )


def _largest(database: bytes, packed: bytes) -> int:
    """Return how many bytes a record of a filter has at most.

    Entries of the journal are digests, and these are as random as bytes can be.
    """
    sizes = {
        b"pages": CHECKSUM_BYTES + PAGE_BYTES,
        b"journal": 4 * len(packed) + CHECKSUM_BYTES + JOURNAL_HEAD.size,
        b"exact": 0,
    }
    return sizes[database]


def _records(found: list[tuple[bytes, bytes, bytes]]) -> Part:
    def write(batch: Batch) -> None:
        for database, key, value in found:
            batch.put_again(database, key, value)

    return Part(write=write)
