"""JobPlace: where a job is, and all that is different between a directory and Redis."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.store.files import SILENT_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import Any

    from bloomdupe.crawl.state.rules import Rules
    from bloomdupe.filter.bloom import BloomFilter
    from bloomdupe.frontier.sent_request import SentRequest
    from bloomdupe.jobs.held import HeldJob
    from bloomdupe.jobs.overview import WorkerFigures
    from bloomdupe.jobs.project import Project
    from bloomdupe.store.store import Store


class Life(NamedTuple):
    """Who has a job."""

    owner: str | None = None
    """The process or the workers; None: nobody has it."""
    beat: float | None = None
    """Unix time of the last sign of life; None: no crawl runs."""
    names: frozenset[str] = frozenset()
    """A name for each process or worker."""
    written_at: float = 0.0
    """Unix time of the last checkpoint; 0: there was none."""
    process: int | None = None
    workers: WorkerFigures | None = None

    @property
    def silence(self) -> float | None:
        """Seconds without a sign of life; None if they are no cause for concern."""
        seconds = 0.0 if self.beat is None else time.time() - self.beat
        return seconds if seconds > SILENT_AFTER else None


class JobPlace(ABC):
    """Where a job is; nothing is opened before it is needed."""

    def __init__(self, named: str) -> None:
        self.named = named
        """A path, or a URL, which may hold a password: do not print it."""

    @property
    @abstractmethod
    def shown(self) -> str:
        """Where it is, for a message."""

    @property
    @abstractmethod
    def identity(self) -> dict[str, Any] | None:
        """The identity of the job, as its store has it; None: there is no job yet."""

    @abstractmethod
    def stores(self) -> AbstractContextManager[list[Store]]:
        """Open the stores, read-only."""

    @abstractmethod
    def filters(self) -> AbstractContextManager[list[BloomFilter]]:
        """Open the filters of the stores, read-only."""

    @abstractmethod
    def rules(self) -> Rules:
        """Return the rules that the user has given to the job."""

    @abstractmethod
    def replace_rules(self, change: Callable[[Rules], Rules]) -> Rules:
        """Replace the rules by what ``change`` makes of them, and return those."""

    @abstractmethod
    def life(self) -> Life:
        """Return who has the job now."""

    def sent(self) -> Iterator[SentRequest]:
        """Yield the requests that are on their way to their store."""
        yield from ()

    @abstractmethod
    def hold(self, project: Project | None, *, begin: bool) -> HeldJob:
        """Have the job, as no crawl may have it then; ``begin`` one that is missing.

        Raises :class:`~bloomdupe.errors.StoreLockedError` if another process has it.
        """

    @abstractmethod
    def hand_over(self, requests: list[SentRequest]) -> None:
        """Leave requests for the crawl, which adds them."""
