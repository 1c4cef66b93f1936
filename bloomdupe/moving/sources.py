"""Sources: lists of lines, and stores, to import into a job."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, BinaryIO

from bloomdupe.crawl.leases.failure import Failure, stored_failures
from bloomdupe.errors import StoreError, StoreLockedError, UnserializableError
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.frontier.payload import url_of
from bloomdupe.frontier.pending_requests import count_pending, pending_requests
from bloomdupe.jobs.lines import read_lines
from bloomdupe.jobs.receiver import Source
from bloomdupe.jobs.request_line import Defaults, Wanted, read_all
from bloomdupe.moving.imports import begun_elsewhere
from bloomdupe.store import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bloomdupe.jobs.job_contract import Watched
    from bloomdupe.jobs.lines import Lines, Problems
    from bloomdupe.jobs.project import Project
    from bloomdupe.jobs.receiver import Imported, Receiver


class LinesSource(Source):
    """A file with a URL or a JSON object on each line.

    ``named`` is the file itself, which may have been read from already.
    """

    is_job = False

    def __init__(
        self, file: Lines, named: BinaryIO, read: Callable[[int], None]
    ) -> None:
        self._file = file
        self._read = read
        self.identity = _identity(named)

    def requests(self, project: Project, problems: Problems) -> Iterator[Wanted]:
        """Yield the requests; new requests come last, like start requests."""
        defaults = Defaults(start=True)
        lines = read_lines(self._file, problems, self._read)
        return read_all(lines, defaults, project, problems)

    def take_marks(self, job: Receiver, imported: Imported) -> None:
        """Do nothing: lists hold no marks."""


def _identity(file: BinaryIO) -> str:
    """Identify a file by size and time; an unrepeatable input is always new."""
    found = os.fstat(file.fileno())
    about: object = (found.st_ino, found.st_size, found.st_mtime_ns)
    if not found.st_size:
        about = os.urandom(16)
    return hashlib.blake2b(repr(about).encode(), digest_size=16).hexdigest()


class StoreSource(Source):
    """A store of another job that does not run. Close it."""

    def __init__(
        self,
        path: Path,
        watched: Watched,
        *,
        marks: bool,
    ) -> None:
        self._seen = BloomFilter.open(path, readonly=True)
        store = self._seen.share_store()
        assert store is not None  # noqa: S101 - it was opened from there
        self._store = store
        self._watched = watched
        self.marks = marks
        self.header = store.header
        self._transaction = self._now()
        self.identity = f"{self.header['key']}-{self._transaction}"

    def _now(self) -> int:
        """Return the number of the last transaction; refuse a job that runs."""
        owner = files.owner_of(self._store.path)
        if owner is not None:
            raise StoreLockedError(
                f"{self._store.path} is in use by process {owner.process or 'unknown'};"
                " stop it, or import a backup of it"
            )
        with self._store.snapshot() as snapshot:
            return snapshot.transaction

    def failures(self, problems: Problems) -> Iterator[tuple[bytes, Failure]]:  # noqa: ARG002
        """Yield the failed requests."""
        if not self.marks:
            return
        with self._store.snapshot() as snapshot:
            yield from stored_failures(snapshot)

    def requests(self, project: Project, problems: Problems) -> Iterator[Wanted]:
        """Yield the pending requests."""
        total = count_pending(self._store)
        for one in self._watched(pending_requests(self._store), total, "requests"):
            try:
                request = project.request_of(one.payload)
            except UnserializableError as error:
                problems.add(url_of(one.payload), str(error))
                continue
            yield Wanted(
                request, one.payload, one.slot, one.start, one.age, one.not_before
            )

    def take_marks(self, job: Receiver, imported: Imported) -> None:
        """Add its filter to the job's filter."""
        if self.marks:
            imported.marks = job.merge(self._seen)
            begun_elsewhere(job, self._seen.notes)
        if self._now() != self._transaction:
            raise StoreError(
                f"{self._store.path} has changed meanwhile; import it again"
            )

    def close(self) -> None:
        """Close the store."""
        self._seen.close()
