"""HeldJob: a job that no other process has, opened to be changed without Scrapy."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from bloomdupe.crawl.added_requests import AddedRequests, Asked
from bloomdupe.crawl.state.rules_file import RulesFile
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.frontier.frontier import Frontier

if TYPE_CHECKING:
    from pathlib import Path

    from bloomdupe.store.participant import Part
    from bloomdupe.store.store import Store


class HeldJob:
    """A job with its filter, frontier and rules, which this process has to close.

    Nothing is durable before :meth:`commit`. As long as it is open, no crawl can run.
    """

    def __init__(
        self,
        seen: BloomFilter,
        *,
        fifo: bool = False,
        start_fifo: bool = True,
        starts_apart: bool = True,
    ) -> None:
        self.seen = seen
        self._starts_apart = starts_apart
        with ExitStack() as undo:
            undo.callback(seen.close)
            self.frontier = Frontier(seen, fifo=fifo, start_fifo=start_fifo)
            self.rules = RulesFile(self.store.path).read()
            undo.pop_all()

    @classmethod
    def held(cls, path: Path) -> HeldJob:
        """Open the job with the store at ``path``, to remove requests.

        Raises the errors of :meth:`bloomdupe.BloomFilter.open`.
        """
        return HeldJob(BloomFilter.open(path))

    @property
    def store(self) -> Store:
        """The store of the job."""
        store = self.frontier.store
        assert store is not None  # noqa: S101 - it was opened from there
        return store

    def push(
        self,
        slot: str,
        priority: int,
        payload: bytes,
        *,
        start: bool = False,
        not_before: float | None = None,
        sequence: int | None = None,
    ) -> None:
        """Make a request pending, whether it was seen or not.

        ``sequence`` is its age, see :meth:`Frontier.push`.
        """
        self.frontier.push(
            slot,
            priority,
            payload,
            start=start and self._starts_apart,
            not_before=not_before,
            sequence=sequence,
        )

    def push_asked(self, one: Asked) -> None:
        """Make a request pending that was asked for by hand."""
        start, not_before = one.start, one.not_before
        self.push(
            one.slot, one.priority, one.payload, start=start, not_before=not_before
        )

    def add(self, one: Asked) -> str:
        """Add a request that was not seen; return the name of its count."""
        return one.add(self.rules, self.seen, self.push_asked)

    def take_inbox(self) -> None:
        """Take in what was added while a crawl was running that has ended since."""
        AddedRequests(self.store, self.add).take_all(self.commit)

    def close(self) -> None:
        """Close the store, without uncommitted changes."""
        self.seen.close()

    def commit(self, *parts: Part) -> None:
        """Make everything durable in one transaction, together with these ``parts``."""
        self.frontier.checkpoint(*parts)
