"""Outcomes: the output of requests, which counts when they are acknowledged."""

from __future__ import annotations

import tempfile
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, TypeAlias

import msgpack  # type: ignore[import-untyped]

from bloomdupe.errors import FeedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bloomdupe.crawl.in_flight.request import Accepted
    from bloomdupe.feeds.exporter import Line

MOST_BYTES = 8 << 20
"""Bytes of lines kept in memory; a request that brings more puts them on disk."""

LINE_BYTES = 100
"""What a line takes in memory besides its bytes."""

Key: TypeAlias = tuple[bytes, bool]
"""A fingerprint, and whether it is exact."""


@dataclass(slots=True, eq=False)
class Outcome:
    """Everything that is recorded when one request is acknowledged, with its parts."""

    loose: Accepted | None = None
    """A request that no page and no ``start()`` would yield again."""
    answers: list[tuple[int, str, int]] = field(default_factory=list)
    """Responses received: HTTP status, slot, and bytes of the body."""
    of_no_page: bool = False
    """Whether it belongs to no page that could yield it again."""
    items: int = 0
    lines: list[Line] = field(default_factory=list)
    spilled: list[tuple[int, int]] = field(default_factory=list)
    """Places of the earlier lines in the file of :class:`Outcomes`: first byte, and
    number of bytes."""
    visited: float | None = None
    """Unix time of this visit, if the page is revisited."""
    then: list[Callable[[], object]] = field(default_factory=list)
    """What is done when it counts: keys are marked, requests are sent, failures are
    recorded."""


class Outcomes:
    """Outcomes of requests in flight, and of those acked since the last checkpoint.

    Memory is bounded: by the requests in flight and an interval between checkpoints,
    and by ``MOST_BYTES`` for all lines together. Beyond that the lines of a request go
    to a temporary file in ``directory``, which has no name and vanishes with the
    process.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._size = 0
        self._file: IO[bytes] | None = None
        self._end = 0
        self._in_file = 0
        self._acked: deque[Outcome] = deque()

    def add_line(self, outcome: Outcome, line: Line) -> None:
        """Add an item to the output of a request.

        Raises :class:`~bloomdupe.errors.FeedError` if there is no room to spill it.
        """
        outcome.lines.append(line)
        self._size += LINE_BYTES + len(line[1])
        if self._size > MOST_BYTES:
            try:
                self._spill(outcome)
            except OSError as error:
                where = self._directory
                raise FeedError(f"cannot spill items to {where}: {error}") from error

    def _spill(self, outcome: Outcome) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(  # noqa: SIM115 - as long as the crawl
                dir=self._directory, buffering=0
            )
        self._file.seek(self._end)
        packed = memoryview(msgpack.packb(outcome.lines))
        size, written = len(packed), 0
        while written < size:
            written += self._file.write(packed[written:])
        outcome.spilled.append((self._end, size))
        self._end += size
        self._in_file += size
        self._size -= _size_of(outcome.lines)
        outcome.lines = []

    def ack(self, outcome: Outcome) -> None:
        """Let an outcome count."""
        self._acked.append(outcome)

    @property
    def changed(self) -> bool:
        """Whether anything is acknowledged that no checkpoint holds."""
        return bool(self._acked)

    # Two phases: acknowledged outcomes are read, and forgotten when they are durable

    @property
    def acked(self) -> list[Outcome]:
        """The outcomes that the next checkpoint counts."""
        return list(self._acked)

    def lines(self) -> Iterator[Line]:
        """Yield the lines of all that is acknowledged."""
        for outcome in self.acked:
            for start, size in outcome.spilled:
                assert self._file is not None  # noqa: S101 - something was spilled
                self._file.seek(start)
                yield from msgpack.unpackb(self._file.read(size))
            yield from outcome.lines

    def committed(self, outcomes: int) -> None:
        """Mark the first ``outcomes`` as durable, with all their lines."""
        for _ in range(outcomes):
            self.forget(self._acked.popleft())

    def forget(self, outcome: Outcome) -> None:
        """Drop the lines of an outcome, which are durable, or will never count."""
        self._size -= _size_of(outcome.lines)
        self._in_file -= sum(size for _, size in outcome.spilled)
        outcome.lines, outcome.spilled = [], []
        if self._file is not None and not self._in_file and self._end:
            # Room that is not given back is used again.
            with suppress(OSError):
                self._file.truncate(0)
            self._end = 0

    def drop(self) -> list[Accepted]:
        """Drop what is not committed, unless nothing can yield it again.

        No outcome may be durable in part only. Returns the requests that nothing can
        yield again: copies, because the objects may be in flight.
        """
        acked, self._acked = self._acked, deque()
        loose = []
        for outcome in acked:
            if outcome.of_no_page:
                self._acked.append(outcome)
            elif outcome.loose is not None:
                request = outcome.loose.request.copy()
                loose.append(outcome.loose._replace(request=request))
        self._size = sum(_size_of(one.lines) for one in self._acked)
        self._in_file = sum(size for one in self._acked for _, size in one.spilled)
        return loose

    def close(self) -> None:
        """Release the file and its content."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _size_of(lines: list[Line]) -> int:
    return sum(LINE_BYTES + len(data) for _, data in lines)
