"""Collecting: brings the output of shared workers from Redis into their feeds."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.errors import (
    StoreMismatchError,
    StoreUnreachableError,
    UnserializableError,
)
from bloomdupe.feeds.delivery import WaitingFeed
from bloomdupe.moving.collected_feeds import CollectedFeeds
from bloomdupe.moving.collection import Collection
from bloomdupe.moving.reactor import run
from bloomdupe.moving.stream_output import StreamOutput
from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from scrapy.settings import Settings
    from typing_extensions import Self

    from bloomdupe.moving.stream_output import ItemEntry

logger = logger_of(__name__)

BATCH_BYTES = 1 << 23
"""Bytes of items that become durable together; memory holds a few times as much."""


class CollectedFile(NamedTuple):
    """The result for a feed."""

    place: str
    """The path of its first file, or its URI for another storage."""
    added: int
    """Items that were added."""
    bytes: int
    """The size of its first file now."""
    later: bool
    """Whether the items are kept here, until the crawl has ended."""


class Collected(NamedTuple):
    """The result of collecting."""

    files: dict[str, CollectedFile]
    """By the name of the feed."""
    deleted: int
    """Entries deleted from Redis; each has an item or more."""
    finished: bool
    """Whether the crawl had ended before the last read: then nothing is missing."""
    failed: bool
    """Whether a storage has not accepted a file, or an exporter has failed."""
    undelivered: bool
    """Whether a feed is not delivered, though the crawl has ended."""


class Collecting:
    """Collects the output of a crawl in a directory.

    ``progress`` is called with numbers of bytes that have become durable.
    """

    def __init__(
        self,
        output: StreamOutput,
        collection: Collection,
        feeds: CollectedFeeds,
        *,
        delete: bool,
        progress: Callable[[int], None],
    ) -> None:
        self._output = output
        self._collection = collection
        self._feeds = feeds
        self._delete = delete
        self._progress = progress
        self._deleted = 0
        self._finished = False

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
        progress: Callable[[int], None],
    ) -> Self:
        """Open a directory, new or begun, for the crawl at a URL.

        ``settings`` are those of the project, see :class:`bloomdupe.jobs.project`. If
        another collection has deleted some of the output from Redis, only the ``rest``
        is left, and the caller must ask for it. The caller has ``named`` the feeds that
        the settings do not have.
        """
        output = StreamOutput.open(url)
        with ExitStack() as undo:
            undo.callback(output.close)
            collection = Collection.open(directory, output, rest=rest)
            undo.callback(collection.close)
            feeds = CollectedFeeds.open(settings, output, collection, named)
            undo.pop_all()
        return cls(output, collection, feeds, delete=delete, progress=progress)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._feeds.close()
        self._collection.close()
        self._output.close()

    @property
    def result(self) -> Collected:
        """The result so far."""
        feeds, files = self._feeds, {}
        for feed, before in zip(feeds.by_number, feeds.before, strict=True):
            place, size = feeds.place_of(feed)
            later, added = isinstance(feed, WaitingFeed), feed.items - before
            files[feed.name] = CollectedFile(place, added, size, later)
        return Collected(
            files, self._deleted, self._finished, feeds.failed, feeds.undelivered
        )

    # Collecting

    def run(self, follow: float | None = None) -> None:
        """Collect the output in Redis, or ``follow`` the crawl until it has ended.

        That is the number of seconds between two reads. Meanwhile Redis may be away.
        Storages get the files when the crawl has ended.
        """
        run(self._run(follow), self._feeds)

    async def _run(self, follow: float | None) -> None:
        if self._collection.is_new:
            self._write([], self._collection.position)
        away = False
        while True:
            try:
                for _ in self._steps():
                    await asyncio.sleep(0)
                away = False
            except StoreUnreachableError as error:
                if follow is None:
                    raise
                if not away:
                    logger.warning("%(error)s. Waiting for it", {"error": error})
                away = True
            if self._finished or follow is None:
                break
            await asyncio.sleep(follow)
        self._feeds.end(finished=self._finished)
        for _ in range(2):  # the second drops what is in the files
            self._write([], self._collection.position)
        self._feeds.sync()
        await self._feeds.deliver()

    def _steps(self) -> Iterator[None]:
        """Collect the output in Redis, with a pause after each batch.

        At the end it is known whether the crawl had ended before.
        """
        self._output.check_still_there()
        finished = self._output.has_ended()
        batch: list[ItemEntry] = []
        size = 0
        for entry in self._output.entries(self._collection.position):
            batch.append(entry)
            size += sum(map(len, entry.items))
            if size >= BATCH_BYTES:
                self._keep(batch)
                batch, size = [], 0
                yield
        self._keep(batch)
        self._forget()
        self._finished = finished

    def _keep(self, batch: list[ItemEntry]) -> None:
        """Make a batch durable, if its crawl is still there."""
        if not batch:
            return
        lines = [line for entry in batch for line in self._lines_of(entry)]
        self._write(lines, batch[-1].position)
        self._progress(sum(len(item) for entry in batch for item in entry.items))
        self._forget()

    def _lines_of(self, entry: ItemEntry) -> Iterator[tuple[int, bytes]]:
        """Yield what the items of an entry add to the feeds."""
        for item in entry.items:
            try:
                yield from self._feeds.lines_of(item)
            except (UnserializableError, ValueError) as error:
                raise StoreMismatchError(
                    f"{self._output.shown}: an item of {entry.shown} cannot be read"
                    f" here: {error}. Run this in the folder of the project; the items"
                    " before it are collected"
                ) from error

    def _write(self, lines: list[tuple[int, bytes]], position: Any) -> None:  # noqa: ANN401
        """Commit lines and the position behind them, and write the lines to the files.

        After a crash, the next call writes what is committed.
        """
        self._feeds.sync()
        part = self._feeds.prepare(lines)
        self._output.check_still_there()
        self._collection.commit(part, position)
        part.done()
        self._feeds.append()

    def _forget(self) -> None:
        """Delete from Redis the entries that are durable here, if ``delete`` is set."""
        if self._delete:
            self._deleted += self._output.forget(self._collection.position)
