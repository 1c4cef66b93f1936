"""SharedOutput: the output of workers that share a crawl, read from its partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.errors import StoreMismatchError
from bloomdupe.moving.item_source import ItemEntry
from bloomdupe.redis.open_frontier import OpenFrontier
from bloomdupe.redis.partition import NO_ENTRY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

    from bloomdupe.redis.partition import OutputEntry

PAGE_BYTES = 1 << 20
"""Bytes of items to read at once."""
MOST_ENTRIES = 1_000
"""Entries to read at once, at most."""


class SharedOutput:
    """An :class:`~bloomdupe.moving.item_source.ItemSource`.

    A position has the last entry of each partition.
    """

    def __init__(self, frontier: OpenFrontier) -> None:
        feeds = frontier.identity.get("feeds")
        if not isinstance(feeds, list) or not all(isinstance(f, str) for f in feeds):
            raise StoreMismatchError(
                f"{frontier.shown} is no crawl of Scrapy, because it names no feeds:"
                " its output can be read, but not collected"
            )
        self._frontier = frontier
        self.shown = frontier.shown
        self.mark, self.identity = frontier.mark, frontier.identity
        self.close = frontier.close
        self.check_still_there = frontier.check_still_there
        self._begun = False
        self._at_once = 1
        self._clean: dict[int, str] = {}

    @classmethod
    def open(cls, url: str) -> Self:
        """Open the output of the crawl at a URL."""
        frontier = OpenFrontier.open(url)
        try:
            return cls(frontier)
        except BaseException:
            frontier.close()
            raise

    def start(self, *, rest: bool) -> list[str]:
        """Return the position at which a new collection begins."""
        numbers = range(self._frontier.partitions)
        forgotten = self._frontier.forgotten
        return [(forgotten(n) if rest else NO_ENTRY).decode() for n in numbers]

    def has_ended(self) -> bool:
        """Whether the crawl has ended: what is read from now on is all there is.

        A crawl without any requests has not begun, and a crawl with a worker goes on:
        ``start()`` may wait, or a request that cannot be stored.
        """
        frontier = self._frontier
        # In this order: a crawl that begins between two of these looks has not ended,
        # nor has one with a worker that offers a request and leaves.
        self._begun = self._begun or any(c.pushed for c in frontier.counts())
        return self._begun and not frontier.workers() and frontier.finished

    def entries(self, after: list[str]) -> Iterator[ItemEntry]:
        """Yield the entries after a position, in their order in each partition."""
        position = list(after)
        if len(position) != self._frontier.partitions:
            raise StoreMismatchError(f"{self.shown} has another number of partitions")
        for number in range(len(position)):
            for entry in self._entries_in(number, position[number]):
                name = entry.number.decode()
                position = [*position[:number], name, *position[number + 1 :]]
                shown = (
                    f"entry {name} of the output of partition {number} (worker"
                    f" {entry.worker})"
                )
                yield ItemEntry(position, entry.lines, shown)

    def _entries_in(self, number: int, position: str) -> Iterator[OutputEntry]:
        after = position.encode()
        while True:
            asked = self._at_once
            entries = self._frontier.entries(number, after, asked)
            yield from entries
            if len(entries) < asked:
                return
            after = entries[-1].number
            size = sum(len(line) for entry in entries for line in entry.lines)
            more = min(MOST_ENTRIES, 2 * asked)
            self._at_once = more if size < PAGE_BYTES else max(1, asked // 2)

    def forget(self, position: list[str]) -> int:
        """Delete the entries before a position; return how many entries went."""
        gone = 0
        for number, name in enumerate(position):
            if name != NO_ENTRY.decode() and self._clean.get(number) != name:
                gone += self._frontier.forget(number, name.encode())
                self._clean[number] = name
        return gone
