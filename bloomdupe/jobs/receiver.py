"""Receiver: a job that takes in requests and marks from a source.

:mod:`bloomdupe.moving.imports` moves them from a :class:`Source` to a
:class:`Receiver`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from bloomdupe.jobs.lines import Problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bloomdupe.crawl.leases.failure import Failure
    from bloomdupe.filter.bloom import BloomFilter
    from bloomdupe.jobs.project import Project
    from bloomdupe.jobs.request_line import Wanted


@dataclass
class Imported:
    """Counts of an import."""

    taken_in: int = 0
    """Requests that are pending now."""
    seen: int = 0
    """Requests that were seen before, and so skipped."""
    blocked: int = 0
    """Requests that a rule of ``bloomdupe block`` keeps out."""
    failures: int = 0
    """Failed requests imported from the other job."""
    before: int = 0
    """Requests that an interrupted import had processed."""
    owed: int = 0
    """Requests that are missing in the job, as if they were done: they could not be
    read, here or by an earlier import of this source.
    """
    marks: int = 0
    """Fingerprints, or URLs of a filter, that are marked as seen now."""
    remarks: list[str] = field(default_factory=list)
    """Data that are not imported, and the remedies."""
    problems: Problems = field(default_factory=Problems)


class Receiver(Protocol):
    """A job that receives requests and marks: in a JOBDIR, or shared on Redis."""

    project: Project

    @property
    def notes(self) -> dict[str, Any]:
        """Notes that become durable with the next :meth:`commit`."""

    @property
    def sequence(self) -> int:
        """Number of requests ever added; ages begin there."""

    @property
    def due(self) -> bool:
        """Whether it is time to commit."""

    def keeps_out(self, one: Wanted) -> bool:
        """Whether a rule keeps a request out."""

    def take_over(self, one: Wanted, place: int, *, in_any_case: bool) -> bool:
        """Add the request at a place of the source.

        False if it was seen before, unless it is to be added ``in_any_case``.
        """

    def take_in_failures(self, found: Iterable[tuple[bytes, Failure]]) -> int:
        """Import failed requests; return how many."""

    def mark(self, fingerprint: bytes) -> None:
        """Mark a fingerprint as seen."""

    def merge(self, seen: BloomFilter) -> int:
        """Mark all URLs of a filter as seen; return how many URLs that is."""

    def commit(self) -> None:
        """Make all changes durable."""

    def complete(self, imported: Imported) -> None:
        """Correct the counts, and add remarks, at the end."""


class Source(ABC):
    """A source of requests and marks."""

    identity: str
    """Identity of the source; the same if it is read again."""
    header: dict[str, Any] | None = None
    """Header of the store, if the source is a job of bloomdupe's."""
    is_job: bool = True
    """Whether it is a job, with seen URLs; a list of requests is not."""

    def failures(self, problems: Problems) -> Iterator[tuple[bytes, Failure]]:  # noqa: ARG002
        """Yield failed requests, under their digests; called first."""
        return iter(())

    @abstractmethod
    def requests(self, project: Project, problems: Problems) -> Iterator[Wanted]:
        """Yield the requests for a job of this project, always in the same order.

        A request that cannot be read is a problem, at its place.
        """

    @abstractmethod
    def take_marks(self, job: Receiver, imported: Imported) -> None:
        """Import the seen URLs, and the position of the crawl."""
