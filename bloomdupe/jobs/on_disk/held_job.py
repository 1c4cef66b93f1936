"""HeldJob: a job that no other process has, opened to be changed without Scrapy."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NoReturn

from bloomdupe.crawl.changes.open_job import OpenJob
from bloomdupe.crawl.changes.taking_up import TakingUp
from bloomdupe.crawl.state.blocked import BLOCKED, Blocked
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.frontier.frontier import Frontier

if TYPE_CHECKING:
    from pathlib import Path

    from bloomdupe.crawl.changes.selection import RequestReader
    from bloomdupe.store.participant import Part


class NoReader:
    """Reads no requests: for changes that name slots and patterns only."""

    is_plain = False

    def request_of(self, payload: bytes) -> NoReturn:
        """Refuse."""
        raise NotImplementedError

    def key_of(self, request: Any) -> NoReturn:  # noqa: ANN401 - there is none
        """Refuse."""
        raise NotImplementedError


class HeldJob(OpenJob):
    """A job with its filter and frontier, which this process has to close.

    Nothing is durable before :meth:`commit`. As long as it is open, no crawl can run.
    """

    def __init__(
        self,
        seen: BloomFilter,
        keys: RequestReader,
        *,
        fifo: bool = False,
        start_fifo: bool = True,
        starts_apart: bool = True,
    ) -> None:
        rules = seen.notes.get(BLOCKED, [])
        blocked = Blocked(rules, lambda request: keys.key_of(request)[0])
        with ExitStack() as undo:
            undo.callback(seen.close)
            frontier = Frontier(seen, fifo=fifo, start_fifo=start_fifo)
            super().__init__(frontier, blocked, keys, starts_apart=starts_apart)
            self.taking_up = TakingUp(self)
            undo.pop_all()

    @classmethod
    def held(cls, path: Path) -> HeldJob:
        """Open the job with the store at ``path``, to remove requests.

        Raises the errors of :meth:`bloomdupe.BloomFilter.open`.
        """
        return HeldJob(BloomFilter.open(path), NoReader())

    def close(self) -> None:
        """Close the store, without uncommitted changes."""
        self.seen.close()

    def commit(self, *parts: Part) -> None:
        """Make everything durable in one transaction, together with these ``parts``."""
        self.frontier.checkpoint(*parts)
