"""Job: the contract of a job that the user names, on whichever engine it is.

An engine has the operations that it defines. The command line asks :meth:`Job.has`
before it runs a verb, so a verb needs no case for each engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from bloomdupe.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import TypeAlias

    from scrapy.settings import Settings

    from bloomdupe.crawl.added_requests import Asked
    from bloomdupe.crawl.leases.failure import Failure
    from bloomdupe.crawl.state.rules import Rules
    from bloomdupe.jobs.added import Added
    from bloomdupe.jobs.changes import Dropped
    from bloomdupe.jobs.overview import Description
    from bloomdupe.jobs.project import Project
    from bloomdupe.jobs.selection import Selection
    from bloomdupe.jobs.view import Reader

    Watched: TypeAlias = Callable[..., Iterator[Any]]
    """Yields the given things and shows their progress, by total and kind.

    A fourth argument is a function that returns how many a thing counts for.
    """


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


class ChangingJob(Protocol):
    """Makes changes to a job that does not run; it is to be closed."""

    @property
    def project(self) -> Project:
        """The project of the job."""

    def add(self, requests: list[Asked], added: Added) -> None:
        """Make requests pending that the job has not seen, and count them.

        A job that runs takes them in later.
        """

    def requeue(self, requests: list[Asked], added: Added) -> None:
        """Make pages pending again that are done, and count them.

        Pages that are pending are left, and so are pages that were never seen.
        """

    def requeue_failed(
        self, selection: Selection, reasons: tuple[str, ...], added: Added
    ) -> None:
        """Make requests pending again that failed for these reasons (() are all)."""

    def drop(self, selection: Selection, pages: dict[bytes, str]) -> Dropped:
        """Remove pending requests: those for the ``pages`` only, if there are any.

        ``pages`` has the URL of each fingerprint.
        """

    def close(self) -> None:
        """End the work on the job."""


class Job(ABC):
    """A job that the user names. Nothing is opened before it is needed.

    All operations raise :class:`~bloomdupe.errors.BloomDupeError`.
    """

    argument: ClassVar[str]
    """The form in which a user names such a job, for help texts."""
    kind: ClassVar[str]
    """The kind of job, as the subject of a sentence."""

    def __init__(self, named: str) -> None:
        self._named = named

    @classmethod
    def has(cls, operation: str) -> bool:
        """Whether this engine has an operation: a method or property of this class."""
        return getattr(cls, operation) is not getattr(Job, operation)

    def _lacks(self, what: str) -> SettingError:
        return SettingError(f"{self.kind} has no {what}")

    # Operations of every engine

    @property
    def jobs_within(self) -> list[Path]:
        """JOBDIRs in the named directory, if it is no job; by name."""
        return []

    @abstractmethod
    def describe(self) -> Description:
        """Read the filter and the state of the job, also while it runs."""

    @abstractmethod
    def requests(
        self, selection: Selection, watched: Watched
    ) -> Iterator[ListedRequest | ListedItems]:
        """Open the job, and yield its pending and in-progress requests."""

    @abstractmethod
    def reader(self) -> AbstractContextManager[Reader]:
        """Return a reader that can read the job again and again."""

    @abstractmethod
    def removal(self) -> AbstractContextManager[Removal]:
        """Prepare to remove the job; within the context, a JOBDIR is locked."""

    @abstractmethod
    def failed_requests(
        self, selection: Selection, reasons: tuple[str, ...]
    ) -> list[Failure]:
        """Return the requests that failed for these reasons (() are all)."""

    @abstractmethod
    def changing(
        self,
        settings: Settings | None,
        watched: Watched,
        *,
        by_url: bool,
        adding: bool = False,
        spider: str | None = None,
    ) -> ChangingJob:
        """Open the job for changes; refuse a job that runs.

        Without ``by_url``, the changes name slots and patterns only. Only ``adding``
        requests is possible while the job runs; it may begin a job of ``spider``.
        """

    @abstractmethod
    def change_rules(self, change: Callable[[Rules], Rules]) -> Ruled:
        """Change the rules of the job, whether it runs or not."""

    @abstractmethod
    def stop(self, *, wait: bool) -> int:
        """Ask the crawl to stop, and ``wait`` for its end; return its processes.

        Raises :class:`~bloomdupe.errors.StoreError` if it does not run.
        """

    # Operations that an engine may lack

    @property
    def directory(self) -> Path:
        """The directory of the store, which must exist already."""
        raise self._lacks("directory: name a JOBDIR, or the directory of a store")

    @property
    def new_directory(self) -> Path:
        """The directory of the store, whether it exists or not."""
        raise self._lacks("directory: name a JOBDIR, or the directory of a store")

    @property
    def jobdir(self) -> str:
        """The JOBDIR, which may hold a job of Scrapy's own."""
        raise self._lacks("JOBDIR with a job of Scrapy: SOURCE is missing")

    @property
    def url(self) -> str:
        """The URL on Redis, where the output of workers is."""
        raise self._lacks("output to collect: name a crawl, redis://host:6379/0#name")
