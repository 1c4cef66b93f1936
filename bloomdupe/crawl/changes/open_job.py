"""OpenJob: a job that this process has open, as changes see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.later.backoff import PAUSED
from bloomdupe.crawl.state.blocked import BLOCKED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bloomdupe.crawl.changes.selection import RequestReader
    from bloomdupe.crawl.state.blocked import Blocked
    from bloomdupe.filter.bloom import BloomFilter
    from bloomdupe.frontier.frontier import Frontier
    from bloomdupe.store.store import Store


def _no_slots(_: set[str]) -> None:
    pass


class OpenJob:
    """The frontier, the filter and the rules of a job, with or without a crawl.

    ``keys`` reads its requests. ``pause`` is told the slots that are paused, and
    ``pushed`` is called before a request becomes pending.
    """

    def __init__(
        self,
        frontier: Frontier,
        blocked: Blocked,
        keys: RequestReader,
        *,
        starts_apart: bool,
        pause: Callable[[set[str]], object] = _no_slots,
        pushed: Callable[[], object] = lambda: None,
    ) -> None:
        self.frontier = frontier
        self.seen: BloomFilter = frontier.seen
        self.blocked = blocked
        self.keys = keys
        self._starts_apart = starts_apart
        self._pause = pause
        self._pushed = pushed
        self.failures: dict[bytes, bytes] = {}
        """Failed requests to store with the next commit, packed."""
        self.stop: Callable[[], object] | None = None
        """Closes the crawl soon; None: no crawl runs."""

    @property
    def store(self) -> Store:
        """The store of the job."""
        store = self.frontier.store
        assert store is not None  # noqa: S101 - only a job on disk is changed
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
        self._pushed()
        self.frontier.push(
            slot,
            priority,
            payload,
            start=start and self._starts_apart,
            not_before=not_before,
            sequence=sequence,
        )

    def blocks(self, slot: str, payload: bytes) -> bool:
        """Whether a rule keeps a stored request out; see :meth:`Blocked.blocks`."""
        return self.blocked.blocks(slot, payload, self.keys.request_of)

    @property
    def rules(self) -> list[dict[str, Any]]:
        """The rules that keep requests out; see :class:`Blocked`."""
        return list(self.seen.notes.get(BLOCKED, []))

    @rules.setter
    def rules(self, rules: list[dict[str, Any]]) -> None:
        self.seen.notes[BLOCKED] = rules
        self.blocked.obey(rules)

    @property
    def paused(self) -> list[str]:
        """The slots that get no requests."""
        return list(self.seen.notes.get(PAUSED, []))

    @paused.setter
    def paused(self, slots: Iterable[str]) -> None:
        self.seen.notes[PAUSED] = sorted(slots)
        self._pause(set(slots))
