"""Collecting: brings the output of shared workers from Redis into their feeds."""

from __future__ import annotations

import re
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from bloomdupe.crawl.engines.on_redis.going.feeds.spooled_feed import SpooledFeed
from bloomdupe.errors import (
    StoreDamagedError,
    StoreMismatchError,
    StoreUnreachableError,
    UnserializableError,
)
from bloomdupe.moving.collected_feeds import CollectedFeeds
from bloomdupe.moving.collection import Collection, Origin
from bloomdupe.moving.reactor import run_in_reactor, run_without_reactor
from bloomdupe.redis.open_frontier import OpenFrontier
from bloomdupe.redis.partition import NO_ENTRY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from scrapy.settings import Settings
    from typing_extensions import Self

    from bloomdupe.moving.reactor import Pause
    from bloomdupe.redis.partition import OutputEntry

T = TypeVar("T")

BATCH_BYTES = 1 << 23
"""Bytes of lines that become durable together; memory holds a few times as much."""
PAGE_BYTES = 1 << 20
"""Bytes of lines to read at once."""
MOST_ENTRIES = 1_000
"""Entries to read at once, at most."""

NUMBERED = re.compile(rb"([0-9]{1,9}) (.+)", re.DOTALL)
"""A line: the number of its feed, a blank, and the line or item itself."""


class CollectedFile(NamedTuple):
    """The result for a feed."""

    feed: str
    """The URI of its feed in the crawl."""
    place: str
    """The path of its present file, or its URI for another storage."""
    added: int
    """Lines that were added."""
    bytes: int
    """The size of its present file now."""
    later: bool
    """Whether the file is kept here, until its storage gets it."""


@dataclass
class Collected:
    """The result of collecting."""

    files: dict[str, CollectedFile] = field(default_factory=dict)
    deleted: int = 0
    """Entries deleted from Redis; each has a line or more."""
    finished: bool = False
    """Whether the crawl had ended before the last read: then nothing is missing."""
    failed: bool = False
    """Whether a storage has not accepted a file."""


@dataclass
class Patience:
    """How to wait for a Redis that does not answer, and for a crawl that is running."""

    seconds: float
    """Seconds between two reads."""
    say: Callable[[str], None]
    """Called once when Redis does not answer."""
    _told: bool = False

    def __call__(self, call: Callable[[], T]) -> T:
        """Call until Redis answers; return the result."""
        while True:
            try:
                result = call()
            except StoreUnreachableError as error:
                self.wait_for(error)
                time.sleep(self.seconds)
            else:
                self.go_on()
                return result

    def wait_for(self, error: StoreUnreachableError) -> None:
        """Say that Redis does not answer, unless that was said."""
        if not self._told:
            self.say(f"{error}. Waiting for it")
        self._told = True

    def go_on(self) -> None:
        """Say so again the next time."""
        self._told = False


@dataclass
class _Batch:
    """Lines that are not in the feeds yet, each with the number of its feed."""

    positions: list[str]
    lines: list[tuple[int, bytes]] = field(default_factory=list)
    bytes: int = 0


class Collecting:
    """Collects the output of a frontier in a directory.

    ``progress`` is called with numbers of bytes that have become durable.
    """

    def __init__(
        self,
        frontier: OpenFrontier,
        collection: Collection,
        feeds: CollectedFeeds,
        *,
        delete: bool,
        progress: Callable[[int], None],
    ) -> None:
        self._frontier = frontier
        self._collection = collection
        self._feeds = feeds
        self._delete = delete
        self._progress = progress
        self._added = [0] * len(feeds.durable)
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
        settings: Settings | None = None,
        *,
        delete: bool = False,
        rest: bool = False,
        named: Sequence[str] = (),
        patience: Patience | None = None,
        progress: Callable[[int], None],
    ) -> Self:
        """Open a directory, new or begun, for the frontier of a URL.

        ``settings`` are those of the project, see :class:`bloomdupe.jobs.project`. If
        another collection has deleted some of the output from Redis, only the ``rest``
        is left, and the caller must ask for it. The caller has ``named`` the feeds of
        other storages that the settings do not have.
        """
        calling = patience or _at_once
        frontier = calling(lambda: OpenFrontier.open(url))
        with ExitStack() as undo:
            undo.callback(frontier.close)
            origin = calling(lambda: _origin_of(frontier, rest=rest))
            collection = Collection.open(directory, origin)
            undo.callback(collection.close)
            feeds = CollectedFeeds.open(
                settings, frontier.identity, collection, frontier.shown, named
            )
            undo.pop_all()
        return cls(frontier, collection, feeds, delete=delete, progress=progress)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._feeds.close()
        self._collection.close()
        self._frontier.close()

    @property
    def result(self) -> Collected:
        """The result so far."""
        return Collected(
            dict(map(self._file_of, range(len(self._added)))),
            self._deleted,
            self._finished,
            self._feeds.failed,
        )

    def _file_of(self, number: int) -> tuple[str, CollectedFile]:
        feed = self._feeds.durable[number]
        name, place = self._feeds.place_of(feed)
        file = feed.batch.file
        return name, CollectedFile(
            feed.name,
            place,
            self._added[number],
            0 if file is None else file.content.size,
            isinstance(feed, SpooledFeed),
        )

    # Collecting

    def run(self, patience: Patience | None = None) -> None:
        """Collect the output in Redis; with ``patience`` until the crawl has ended.

        Storages get the files that are complete.
        """
        if self._feeds.delivers:
            settings = self._feeds.settings
            run_in_reactor(settings, lambda pause: self._run(patience, pause))
        else:
            run_without_reactor(lambda pause: self._run(patience, pause))

    async def _run(self, patience: Patience | None, pause: Pause) -> None:
        self._feeds.begin()
        if self._collection.is_new:
            self._write([], self._collection.positions)
        while True:
            try:
                for _ in self._steps():
                    await pause(0)
            except StoreUnreachableError as error:
                if patience is None:
                    raise
                patience.wait_for(error)
            if self._finished or patience is None:
                break
            await pause(patience.seconds)
        self._end()
        await self._feeds.deliver()
        self._end()

    def _end(self) -> None:
        """Complete the files as far as they can be, and drop what is in them."""
        self._feeds.end(finished=self._finished)
        for _ in range(2):
            self._write([], self._collection.positions)

    def _steps(self) -> Iterator[None]:
        """Collect the output in Redis, with a pause after each batch.

        At the end it is known whether the crawl had ended before. A crawl without any
        requests has not begun, and a crawl with a worker goes on: ``start()`` may
        wait, or a request that cannot be stored.
        """
        frontier = self._frontier
        frontier.check_still_there()
        # In this order: a crawl that begins between two of these looks has not ended,
        # nor has one with a worker that offers a request and leaves.
        self._begun = self._begun or any(c.pushed for c in frontier.counts())
        finished = self._begun and not frontier.workers() and frontier.finished
        batch = _Batch(self._collection.positions)
        for number in range(frontier.partitions):
            for entry in self._entries(number, batch.positions[number]):
                self._take(batch, number, entry)
                if batch.bytes >= BATCH_BYTES:
                    self._keep(batch)
                    batch = _Batch(self._collection.positions)
                    yield
        self._keep(batch)
        self._forget()
        self._finished = finished

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
        """Sort the lines of an entry into the feeds; all of them, or an error."""
        for line in entry.lines:
            found = NUMBERED.fullmatch(line)
            try:
                if found is None:
                    raise ValueError(line)  # noqa: TRY301
                feed = int(found[1])
                data = self._feeds.line_of(feed, found[2])
            except UnserializableError as error:
                raise StoreMismatchError(
                    f"an item of the output of {self._frontier.shown} cannot be read"
                    f" here: {error}. Run this in the folder of the project"
                ) from error
            except ValueError as error:
                most = len(self._feeds.durable) - 1
                raise StoreDamagedError(
                    f"{self._frontier.shown}: entry {entry.number.decode()} of the"
                    f" output of partition {number} has no line of a feed (worker"
                    f" {entry.worker}): {_short(line)}; expected the number of a feed,"
                    f" 0 to {most}, a blank, and a line with its end, or an item. The"
                    " batches before it are collected"
                ) from error
            if data is not None:
                batch.lines.append((feed, data))
                batch.bytes += len(data)
        batch.positions[number] = entry.number.decode()

    def _keep(self, batch: _Batch) -> None:
        """Make a batch durable, if its frontier is still there."""
        if batch.positions == self._collection.positions:
            return
        self._write(batch.lines, batch.positions)
        for number, _ in batch.lines:
            self._added[number] += 1
        self._progress(batch.bytes)
        self._forget()

    def _write(self, lines: list[tuple[int, bytes]], positions: list[str]) -> None:
        """Commit lines and positions, and write the lines to the files.

        A commit may hold a part of the lines. Until all are committed, the old
        positions stand, and after a crash the files are cut back.
        """
        whole = False
        while not whole:
            self._feeds.sync()
            part = self._feeds.prepare(lines, BATCH_BYTES)
            whole, lines = part.whole, lines[part.taken :]
            self._frontier.check_still_there()
            known = self._collection.positions
            self._collection.commit(part, positions if whole else known)
            part.done()
            self._feeds.append()

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


def _origin_of(frontier: OpenFrontier, *, rest: bool) -> Origin:
    """Return the place at which a new collection of a frontier begins."""
    feeds = frontier.identity.get("feeds")
    if not isinstance(feeds, list) or not all(isinstance(f, str) for f in feeds):
        raise StoreMismatchError(
            f"{frontier.shown} is no crawl of Scrapy, because it names no feeds: its"
            " output can be read, but not collected"
        )
    start = [
        (frontier.forgotten(number) if rest else NO_ENTRY).decode()
        for number in range(frontier.partitions)
    ]
    return Origin(frontier.mark, frontier.identity, start)
