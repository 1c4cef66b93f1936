"""Receiver: a job that takes in requests and marks from a source.

:mod:`bloomdupe.moving.imports` moves them from a :class:`Source` to a
:class:`Receiver`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from bloomdupe.jobs.lines import Problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from scrapy import Request

    from bloomdupe.crawl.leases.failure import Failure
    from bloomdupe.filter.bloom import BloomFilter
    from bloomdupe.jobs.project import Project
    from bloomdupe.jobs.written import Wanted

__all__ = ["Imported", "Receiver", "Source"]


@dataclass
class Imported:
    """Counts of an import."""

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
    """A job that receives requests and marks: in a JOBDIR, or shared on Redis."""

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
        """Import failed requests; return how many."""

    def mark(self, fingerprint: bytes) -> None:
        """Let a fingerprint count as seen."""

    def merge(self, seen: BloomFilter) -> int:
        """Let all count as seen that a filter has; return how many URLs that is."""

    def commit(self) -> None:
        """Make it durable."""

    def complete(self, imported: Imported) -> None:
        """Correct the counts, and add remarks, at the end."""


class Source(Protocol):
    """Where requests and marks come from."""

    @property
    def identity(self) -> str:
        """Identity of the source; the same if it is read again."""

    @property
    def header(self) -> dict[str, Any] | None:
        """Header of its store, if it is a job of bloomdupe's."""

    def failures(self, problems: Problems) -> Iterator[tuple[bytes, Failure]]:
        """Yield failed requests, under their digests; called first."""

    def requests(self, job: Receiver, problems: Problems) -> Iterator[Wanted]:
        """Yield the requests, always in the same order.

        One that cannot be read is one problem, at its place.
        """

    def take_marks(self, job: Receiver, imported: Imported) -> None:
        """Import the seen URLs, and the position of the crawl."""
