"""Collecting: copies the output of shared workers from Redis into files."""

from __future__ import annotations

import re
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from bloomdupe.errors import (
    StoreDamagedError,
    StoreMismatchError,
    StoreUnreachableError,
)
from bloomdupe.moving.collection import Collection, Origin, file_names
from bloomdupe.redis.partition import NO_ENTRY
from bloomdupe.redis.shared_frontier import SharedFrontier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from typing_extensions import Self

    from bloomdupe.redis.partition import OutputEntry

T = TypeVar("T")

BATCH_BYTES = 1 << 23
"""Bytes of lines that become durable together; memory holds a few times as much."""
PAGE_BYTES = 1 << 20
"""Bytes of lines to read at once."""
MOST_ENTRIES = 1_000
"""Entries to read at once, at most."""

NUMBERED = re.compile(rb"([0-9]{1,9}) (.*\n)", re.DOTALL)
"""A line: the number of its feed, a blank, and the line itself."""


class CollectedFile(NamedTuple):
    """The result for a file."""

    feed: str
    """The URI of its feed in the crawl."""
    added: int
    """Lines that were added."""
    bytes: int
    """Its size now."""


@dataclass
class Collected:
    """The result of collecting."""

    files: dict[str, CollectedFile] = field(default_factory=dict)
    deleted: int = 0
    """Entries deleted from Redis; each has a line or more."""
    finished: bool = False
    """Whether the crawl had ended before the last read: then nothing is missing."""


@dataclass(frozen=True)
class Patience:
    """How to wait for a Redis that does not answer, and for a crawl that is running."""

    seconds: float
    """Seconds between two reads."""
    say: Callable[[str], None]
    """Called once when Redis does not answer."""

    def __call__(self, call: Callable[[], T]) -> T:
        """Call until Redis answers; return the result."""
        told = False
        while True:
            try:
                return call()
            except StoreUnreachableError as error:
                if not told:
                    self.say(f"{error}. Waiting for it")
                    told = True
                time.sleep(self.seconds)


@dataclass
class _Batch:
    """Lines that are not in the files yet, by file."""

    positions: list[str]
    pieces: dict[str, list[bytes]] = field(default_factory=dict)
    bytes: int = 0


class Collecting:
    """Collects the output of a frontier in a directory.

    ``progress`` is called with numbers of bytes that have become durable.
    """

    def __init__(
        self,
        frontier: SharedFrontier,
        collection: Collection,
        *,
        delete: bool,
        progress: Callable[[int], None],
    ) -> None:
        self._frontier = frontier
        self._collection = collection
        self._delete = delete
        self._progress = progress
        self._added = dict.fromkeys(collection.names, 0)
        self._deleted = 0
        self._clean: dict[int, str] = {}
        """Positions up to which this object has deleted the output of partitions."""
        self._begun = self._finished = False
        self._at_once = 1

    @classmethod
    def open(
        cls,
        url: str,
        directory: Path,
        *,
        delete: bool = False,
        rest: bool = False,
        patience: Patience | None = None,
        progress: Callable[[int], None],
    ) -> Self:
        """Open a directory, new or begun, for the frontier of a URL.

        If another collection has deleted some of the output from Redis, only the
        ``rest`` is left, and the caller must ask for it.
        """
        calling = patience or _at_once
        frontier = calling(lambda: SharedFrontier.open(url))
        with ExitStack() as undo:
            undo.callback(frontier.close)
            collection = calling(lambda: _collection(frontier, directory, rest=rest))
            undo.pop_all()
        return cls(frontier, collection, delete=delete, progress=progress)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *others: object) -> None:
        try:
            self._collection.__exit__(kind, *others)
        finally:
            self._frontier.close()

    @property
    def result(self) -> Collected:
        """The result so far."""
        feeds, sizes = self._frontier.identity["feeds"], self._collection.sizes
        return Collected(
            {
                name: CollectedFile(feed, self._added[name], sizes[name])
                for name, feed in zip(self._collection.names, feeds, strict=True)
            },
            self._deleted,
            self._finished,
        )

    def once(self) -> bool:
        """Collect the output in Redis; return whether the crawl had ended before.

        A crawl without any requests has not begun.
        """
        frontier = self._frontier
        frontier.check_still_there()
        # In this order: a crawl that begins between the two looks has not ended.
        self._begun = self._begun or any(c.pushed for c in frontier.counts())
        finished = self._begun and frontier.finished and not frontier.stays_open
        batch = _Batch(self._collection.positions)
        for number in range(frontier.partitions):
            for entry in self._entries(number, batch.positions[number]):
                self._take(batch, number, entry)
                if batch.bytes >= BATCH_BYTES:
                    self._keep(batch)
                    batch = _Batch(self._collection.positions)
        self._keep(batch)
        self._forget()
        self._finished = finished
        return finished

    def follow(self, patience: Patience) -> None:
        """Collect until the crawl has ended, with a pause between two reads."""
        while not patience(self.once):
            time.sleep(patience.seconds)

    def _entries(self, number: int, position: str) -> Iterator[OutputEntry]:
        """Yield the output of a partition after a position, in bounded pages."""
        after = position.encode()
        while True:
            asked = self._at_once
            entries = self._frontier.entries(number, after, asked)
            yield from entries
            if len(entries) < asked:
                return
            after = entries[-1].number
            size = sum(len(line) for entry in entries for line in entry.lines)
            self._at_once = (
                min(MOST_ENTRIES, 2 * asked)
                if size < PAGE_BYTES
                else max(1, asked // 2)
            )

    def _take(self, batch: _Batch, number: int, entry: OutputEntry) -> None:
        """Sort the lines of an entry into the files; all of them, or an error."""
        names = self._collection.names
        for line in entry.lines:
            found = NUMBERED.fullmatch(line)
            feed = -1 if found is None else int(found[1])
            if found is None or feed >= len(names):
                raise StoreDamagedError(
                    f"{self._frontier.shown}: entry {entry.number.decode()} of the"
                    f" output of partition {number} has no line of a feed (worker"
                    f" {entry.worker}): {_short(line)}; expected the number of a feed,"
                    f" 0 to {len(names) - 1}, a blank, and a line with its end. The"
                    " batches before it are collected"
                )
            piece = found[2]
            batch.pieces.setdefault(names[feed], []).append(piece)
            batch.bytes += len(piece)
        batch.positions[number] = entry.number.decode()

    def _keep(self, batch: _Batch) -> None:
        """Make a batch durable, if its frontier is still there."""
        if batch.positions == self._collection.positions:
            return
        self._frontier.check_still_there()
        pieces = {name: b"".join(lines) for name, lines in batch.pieces.items()}
        self._collection.append(pieces, batch.positions)
        for name, lines in batch.pieces.items():
            self._added[name] += len(lines)
        self._progress(batch.bytes)
        self._forget()

    def _forget(self) -> None:
        """Delete from Redis the entries that are durable here, if ``delete`` is set."""
        if not self._delete:
            return
        for number, position in enumerate(self._collection.positions):
            if position != NO_ENTRY.decode() and self._clean.get(number) != position:
                self._deleted += self._frontier.forget(number, position.encode())
                self._clean[number] = position


def _at_once(call: Callable[[], T]) -> T:
    return call()


def _short(line: bytes) -> str:
    return repr(line) if len(line) <= 60 else f"{line[:60]!r}..."


def _collection(frontier: SharedFrontier, directory: Path, *, rest: bool) -> Collection:
    """Open the directory, with a file for each feed of the frontier."""
    feeds = frontier.identity.get("feeds")
    if not isinstance(feeds, list) or not all(isinstance(f, str) for f in feeds):
        raise StoreMismatchError(
            f"{frontier.shown} says of no feeds in its identity, so it is not of a"
            " Scrapy crawl: its output can be read, but not collected"
        )
    names = file_names(feeds, str(frontier.identity.get("spider", "")))
    start = [
        (frontier.forgotten(number) if rest else NO_ENTRY).decode()
        for number in range(frontier.partitions)
    ]
    origin = Origin(frontier.mark, frontier.identity, start)
    return Collection.open(directory, origin, names)
