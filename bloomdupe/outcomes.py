"""Outcomes: what requests have brought about. It counts when they are settled."""

from __future__ import annotations

import tempfile
from collections import deque
from struct import Struct
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bloomdupe.line import Entry

__all__ = ["Outcome", "Outcomes"]

MOST_BYTES = 8 << 20
"""Bytes of lines kept in memory; a request that brings more puts them on disk."""

_HEAD = Struct("<II")


class Outcome:
    """Lines of output, and counts, of one request.

    A *line* is an item as it will stand in a feed, with the feed's number.
    """

    __slots__ = (
        "body_bytes",
        "items",
        "lines",
        "pages",
        "size",
        "spilled",
        "start_items",
    )

    def __init__(self) -> None:
        self.pages = 0
        """Responses received."""
        self.body_bytes = 0
        """Of their bodies."""
        self.items = 0
        self.start_items = 0
        """Items of ``Spider.start()``, scraped or dropped."""
        self.lines: list[tuple[int, bytes]] = []
        self.size = 0
        """Bytes in ``lines``."""
        self.spilled: IO[bytes] | None = None
        """The lines before those in ``lines``."""

    def add_item(self, *, start: bool) -> None:
        """Count an item; whether it came from ``Spider.start()``."""
        self.items += 1
        self.start_items += start


class Outcomes:
    """Of requests under way, and of those settled since the last checkpoint.

    Memory is bounded: by the requests under way and one interval between
    checkpoints, and by ``MOST_BYTES`` for all lines together. Beyond that the
    lines of a request go to a temporary file in ``directory``, which has no name
    and vanishes with the process.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._waiting: dict[Entry, Outcome] = {}
        self._loose = Outcome()
        self._settled: deque[Outcome] = deque()
        self._size = 0

    def of(self, entry: Entry | None) -> Outcome:
        """Return the outcome of a leased request; of none, what need not wait."""
        if entry is None:
            return self._loose
        outcome = self._waiting.get(entry)
        if outcome is None:
            outcome = self._waiting[entry] = Outcome()
        return outcome

    def add_line(self, outcome: Outcome, feed: int, line: bytes) -> None:
        """Add an item."""
        outcome.lines.append((feed, line))
        outcome.size += len(line)
        self._size += len(line)
        if self._size > MOST_BYTES:
            self._spill(outcome)

    def _spill(self, outcome: Outcome) -> None:
        if outcome.spilled is None:
            outcome.spilled = tempfile.TemporaryFile(  # noqa: SIM115 - till lines()
                dir=self._directory
            )
        for feed, line in outcome.lines:
            outcome.spilled.write(_HEAD.pack(feed, len(line)) + line)
        self._forget(outcome)

    def _forget(self, outcome: Outcome) -> None:
        self._size -= outcome.size
        outcome.size = 0
        outcome.lines = []

    def settle(self, entry: Entry) -> None:
        """Take note that a request is settled."""
        outcome = self._waiting.pop(entry, None)
        if outcome is not None:
            self._settled.append(outcome)

    @property
    def changed(self) -> bool:
        """Whether anything is settled."""
        loose = self._loose
        return bool(self._settled or loose.items or loose.start_items)

    def take(self) -> Iterator[Outcome]:
        """Take out what is settled; see :meth:`lines`."""
        self._settled.append(self._loose)
        self._loose = Outcome()
        while self._settled:
            yield self._settled.popleft()

    def lines(self, outcome: Outcome) -> Iterator[tuple[int, bytes]]:
        """Take out the lines of an outcome."""
        if outcome.spilled is not None:
            with outcome.spilled as file:
                file.seek(0)
                while head := file.read(_HEAD.size):
                    feed, size = _HEAD.unpack(head)
                    yield feed, file.read(size)
        lines = outcome.lines
        self._forget(outcome)
        yield from lines
