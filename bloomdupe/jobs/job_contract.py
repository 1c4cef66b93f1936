"""Job: the contract of a job that the user names, on whichever engine it is.

A verb needs no case for each engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from bloomdupe.jobs.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from scrapy.settings import Settings

    from bloomdupe.crawl.state.rules import Rules
    from bloomdupe.jobs.changes import AddingJob, ChangingJob
    from bloomdupe.jobs.overview import Description
    from bloomdupe.jobs.view import FailedRequests, View


class ListedRequest(NamedTuple):
    """A request that is pending or in progress."""

    slot: str
    method: str
    url: str
    priority: int
    callback: str | None
    not_before: float | None = None
    """Unix time before which it is not fetched."""
    problem: str | None = None
    """The reason why it cannot be read."""
    worker: str | None = None
    """In a crawl on Redis, the worker that processes it."""
    payload: bytes | None = None
    """The stored request, if it has more than that."""


class ListedItems(NamedTuple):
    """Items of ``start()``, on their way to the output of a crawl on Redis."""

    slot: str
    priority: int
    lines: int
    worker: str | None = None


class Removal(NamedTuple):
    """A job that is about to be removed."""

    places: Sequence[str]
    """The directories or the URL to remove, without passwords."""
    contents: str
    """The contents, for the question to the user."""
    remove: Callable[[], object]
    """Removes the job; raises :class:`~bloomdupe.errors.StoreError`."""
    stays: Sequence[str] = ()
    """Output files, which stay."""


class Ruled(NamedTuple):
    """The rules of a job after a change."""

    rules: Rules
    obeyed: str
    """Who obeys them, and when, as a sentence."""


class Reader(Protocol):
    """Reads a job as often as needed; all that is shown of a job comes from here."""

    def read(self) -> View:
        """Return the present view."""

    def describe(self) -> Description:
        """Describe the job as it was read last, or a filter; read it if it was not."""

    def requests(self, selection: Selection) -> Iterator[ListedRequest | ListedItems]:
        """Yield the pending and in-progress requests, also after this is closed."""

    def failed_requests(self) -> FailedRequests:
        """Return the failed requests that were not retried since, latest first."""


class Job(ABC):
    """A job that the user names. Nothing is opened before it is needed.

    All operations raise :class:`~bloomdupe.errors.BloomDupeError`. The command line
    knows which verbs an engine has.
    """

    engine: ClassVar[str]
    """Its name in the table of verbs."""
    kind: ClassVar[str]
    """The kind of job, as the subject of a sentence."""

    def __init__(self, named: str) -> None:
        self.named = named
        """A path, or a URL, which may hold a password: do not print it."""

    @property
    def jobs_within(self) -> list[Path]:
        """JOBDIRs in the named directory, if it is no job; by name."""
        return []

    @abstractmethod
    def reader(self) -> AbstractContextManager[Reader]:
        """Return what reads the job, also while it runs."""

    def has_slot(self, slot: str) -> bool:
        """Whether a request of a slot is pending or has failed."""
        selection = Selection(slot)
        with self.reader() as reader:
            pending = next(reader.requests(selection), None)
            return pending is not None or bool(
                reader.failed_requests().selected(selection, ())
            )

    # Changing

    @abstractmethod
    def adding(self, settings: Settings | None, spider: str | None) -> AddingJob:
        """Open the job to add requests, with the project of the settings.

        It may run. A missing job of the ``spider`` begins.
        """

    @abstractmethod
    def changing(self, settings: Settings | None, *, by_url: bool) -> ChangingJob:
        """Open the job for changes, with the project of the settings.

        Without ``by_url``, only slots and patterns will be named.
        """

    @abstractmethod
    def change_rules(self, change: Callable[[Rules], Rules]) -> Ruled:
        """Change the rules of the job, whether it runs or not."""

    @abstractmethod
    def stop(self, *, wait: bool) -> int:
        """Ask the crawl to stop, and ``wait`` for its end; return its processes.

        Raises :class:`~bloomdupe.errors.StoreError` if it does not run.
        """

    @abstractmethod
    def removal(self) -> AbstractContextManager[Removal]:
        """Prepare to remove the job; within the context, a JOBDIR is locked."""
