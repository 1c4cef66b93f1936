"""Leases: which request object stands for which entry, and when it is settled."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from scrapy import Request

    from bloomdupe.engine_access import EngineAccess
    from bloomdupe.frontier import Frontier
    from bloomdupe.line import Entry

    Key: TypeAlias = tuple[bytes, bool]

__all__ = ["Leases"]


class Leases:
    """Requests handed to the engine, by the identity of the object.

    Not by a mark in ``meta``: that is copied into retries and redirects. ``settled``
    is told of each entry that is settled.

    A request that cannot be stored *keeps its parent*: the request that has yielded
    it is not settled before it is, and so on with its own children. After a crash
    the parent is fetched again, and yields it again. If nobody knows which one it is
    (a middleware, say, has scheduled the request), all that were in progress are kept.
    """

    def __init__(
        self,
        frontier: Frontier,
        engine: EngineAccess,
        settled: Callable[[Entry], None],
    ) -> None:
        self._frontier = frontier
        self._engine = engine
        self._settled = settled
        self._leased: dict[int, tuple[Request, Entry]] = {}
        self._under_way: dict[int, tuple[Request, Entry]] = {}
        # Of entries that cannot be stored: what is to be marked when they are settled
        # (fingerprint, whether exactly), and the entries that they keep.
        self._keeping: dict[Entry, tuple[Key | None, list[Entry]]] = {}
        self._kept: dict[Entry, int] = {}
        self._done: set[Entry] = set()
        self._keys: list[Key] = []

    def add(self, request: Request, entry: Entry) -> None:
        """Note that the engine gets the request now."""
        number = id(request)
        if number in self._leased:
            # A middleware scheduled the same object again; the first round is over.
            self._settle(number, self._keys)
        self._leased[number] = self._under_way[number] = (request, entry)

    def entry_of(self, request: object) -> Entry | None:
        """Return the entry of a request that the engine has got; None for others."""
        found = self._leased.get(id(request))
        return None if found is None else found[1]

    def set_aside(self, entry: Entry) -> None:
        """Keep an entry that nobody can work on, never to be settled."""
        self._frontier.release(entry)

    def left_downloader(self, request: Request) -> None:
        """Note that a request does not keep its slot busy any more (a signal)."""
        found = self._under_way.pop(id(request), None)
        if found is not None:
            self._frontier.release(found[1])

    def look_at_downloader(self) -> None:
        """See which requests were answered or dropped before they got there."""
        there = self._engine.in_downloader
        for request, _ in list(self._under_way.values()):
            if request not in there:
                self.left_downloader(request)

    def keep_parents(self, entry: Entry, key: Key | None) -> None:
        """Let an entry that cannot be stored keep those that may have yielded it."""
        known = self.entry_of(self._engine.parent)
        in_progress = self._engine.in_progress
        parents = (
            [known]
            if known is not None
            else [
                parent
                for request, parent in self._leased.values()
                if request in in_progress
            ]
        )
        for parent in parents:
            self._kept[parent] = self._kept.get(parent, 0) + 1
        self._keeping[entry] = (key, parents)

    def settle(self) -> list[Key]:
        """Settle everything that has left the engine.

        Returns what may be marked now, as it came to :meth:`keep_parents`.
        """
        in_progress = self._engine.in_progress
        keys, self._keys = self._keys, []
        for number, (request, _) in list(self._leased.items()):
            if request not in in_progress:
                self._settle(number, keys)
        return keys

    def _settle(self, number: int, keys: list[Key]) -> None:
        _, entry = self._leased.pop(number)
        self._under_way.pop(number, None)
        self._frontier.release(entry)
        self._done.add(entry)
        through = [entry]
        while through:
            entry = through.pop()
            if entry in self._kept or entry not in self._done:
                continue
            self._done.remove(entry)
            self._frontier.settle(entry)
            self._settled(entry)
            if entry in self._keeping:
                key, parents = self._keeping.pop(entry)
                if key is not None:
                    keys.append(key)
                for parent in parents:
                    self._kept[parent] -= 1
                    if not self._kept[parent]:
                        del self._kept[parent]
                        through.append(parent)
