"""Job: a job that the user names, in a directory or on Redis, as verbs use it.

A job is a list of stores: a directory is one, a crawl on Redis has one for each
partition. Requests are in the store of their slot, and records of the whole job are in
the first store. A verb needs no case for each kind of job.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.crawl.progress.pace import duration
from bloomdupe.errors import StoreLockedError, StoreMismatchError
from bloomdupe.filter.bloom import BloomFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import Any

    from scrapy.settings import Settings

    from bloomdupe.crawl.state.rules import Rules
    from bloomdupe.frontier.sent_request import SentRequest
    from bloomdupe.jobs.held import Added, HeldJob
    from bloomdupe.jobs.project import Project
    from bloomdupe.jobs.view import Life
    from bloomdupe.store.store import Store, StorePlace

MOST_AT_ONCE = 1_000
"""Requests that are added at once, so that a running crawl need not stop for long."""
MOST_BYTES = 1 << 20
"""Bytes of the stored requests that are added at once, unless one has more."""
PAUSE = 0.05
"""Seconds between two checks for a crawl that ends."""


class Removed(NamedTuple):
    """A job that is removed, or about to be."""

    places: list[str]
    """The directories or the URL to remove, without passwords."""
    contents: str
    """The contents, for the question to the user."""
    stays: list[str]
    """Output files, which stay."""


class Job(ABC):
    """A job that the user names. Nothing is opened before it is needed.

    All operations raise :class:`~bloomdupe.errors.BloomDupeError`.
    """

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
    def places(self) -> AbstractContextManager[Sequence[StorePlace]]:
        """Give the places of the stores; refuse a job that is not there."""

    @contextlib.contextmanager
    def stores(self) -> Iterator[list[Store]]:
        """Open the stores that were begun, read-only."""
        with self.places() as places, contextlib.ExitStack() as stack:
            found = [place.open(readonly=True) for place in places if place.exists()]
            for store in found:
                stack.callback(store.close)
            yield found

    @contextlib.contextmanager
    def filters(self) -> Iterator[list[BloomFilter]]:
        """Open the filters of all stores, read-only; an empty one if it was not begun.

        Requests are in the store of their slot, see :func:`partition_of`.
        """
        with self.places() as places, contextlib.ExitStack() as stack:
            yield [
                stack.enter_context(BloomFilter.open(place, readonly=True))
                if place.exists()
                else BloomFilter(1)
                for place in places
            ]

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
    def hold(self, project: Project | None, *, begin: bool = False) -> HeldJob:
        """Have the job, as no crawl may have it then; ``begin`` one that is missing.

        The ``project`` decides on the order of requests that are pushed.

        Raises :class:`~bloomdupe.errors.StoreLockedError` if another process has it.
        """

    @abstractmethod
    def hand_over(self, requests: list[SentRequest]) -> None:
        """Leave requests for the crawl, which adds them."""

    @property
    def jobs_within(self) -> list[Path]:
        """JOBDIRs in the named directory, if it is no job; by name."""
        return []

    @abstractmethod
    def remove(self, confirm: Callable[[Removed], None]) -> Removed:
        """Remove the job, which does not run, unless ``confirm`` raises an error."""

    # Changing

    def add(self, project: Project, found: Iterator[SentRequest], added: Added) -> None:
        """Add requests that were not seen, in a transaction for every thousand.

        The job may run; a missing job begins. After an interruption, committed requests
        stay, and count as seen the next time.
        """
        held, portions = None, portioned(found)
        if self.life().owner is None:
            # Another process may be quicker.
            with contextlib.suppress(StoreLockedError):
                held = self.hold(project, begin=True)
        if held is None:
            for some in portions:
                self.hand_over(some)
                added.handed_over += len(some)
            return
        with contextlib.closing(held):
            for some in portions:
                held.add(some, added)

    def changing(self, project: Project | None) -> HeldJob:
        """Open the job for changes; refuse with StoreLockedError if a crawl has it."""
        with self.stores():  # or there is none
            life = self.life()
        if life.is_held:
            raise StoreLockedError(
                f"{self.shown} is in use by {life.owner}, and this needs a job that"
                " does not run: stop the crawl (Ctrl-C, or `bloomdupe stop --wait`),"
                " run this again, and then the crawl: it goes on"
            )
        return self.hold(project)

    def project(self, settings: Settings | None, spider: str | None = None) -> Project:
        """Return the project of the settings; see :meth:`Project.of_job`."""
        from bloomdupe.jobs.project import Project  # which imports Scrapy

        return Project.of_job(settings, spider, self.identity, self.shown)

    def change_rules(self, change: Callable[[Rules], Rules]) -> tuple[Rules, str]:
        """Change the rules of the job, which a run reads at its checkpoints.

        Returns them, and who obeys them when, as a sentence.
        """
        rules, life = self.replace_rules(change), self.life()
        if life.heartbeat is None:
            return rules, "The next run obeys."
        crawl = f"The running crawl ({life.owner})"
        silence = life.silence(time.time())
        if silence is not None:
            crawl += f" has sent no heartbeat for {duration(silence)}; it"
        return rules, f"{crawl} obeys at its next checkpoint."

    def stop(self, *, wait: bool) -> Life:
        """Ask the crawl to stop, and ``wait`` for its end; return who had the job.

        It is a rule that the next run ignores: a run reads the rules before its first
        heartbeat, and stops if there is a later stop.
        """
        with self.stores():  # or there is none
            before = now = self.life()
        if before.heartbeat is None:
            raise StoreMismatchError("no crawl runs, so there is nothing to stop")
        self.replace_rules(lambda rules: rules.stopping(time.time_ns()))
        while wait and now.names & before.names and now.is_held:
            time.sleep(PAUSE)
            now = self.life()
        return before


def portioned(found: Iterator[SentRequest]) -> Iterator[list[SentRequest]]:
    """Yield requests in portions that are added at once."""
    portion: list[SentRequest] = []
    size = 0
    for one in found:
        portion.append(one)
        size += len(one.payload)
        if len(portion) == MOST_AT_ONCE or size >= MOST_BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion
