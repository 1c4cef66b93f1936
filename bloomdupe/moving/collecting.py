"""Collecting: brings the output of shared workers from Redis into their feeds."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.errors import (
    FeedChangedError,
    FeedError,
    StoreDamagedError,
    StoreMismatchError,
    StoreUnreachableError,
    UnserializableError,
)
from bloomdupe.feeds.feed import WaitingFeed
from bloomdupe.feeds.feed_format import local_path, parameters, without_secret
from bloomdupe.feeds.journal import Journal
from bloomdupe.feeds.stored_feeds import StoredFeeds
from bloomdupe.inside_scrapy.private_names import check_names
from bloomdupe.moving.delivering import exporter_with, run
from bloomdupe.moving.stream_output import StreamOutput
from bloomdupe.printable import logger_of
from bloomdupe.requests.values import unpack
from bloomdupe.store.files import lock_owner, make_directory, read_json, write_json
from bloomdupe.store.system_errors import explained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from scrapy.settings import Settings
    from typing_extensions import Self

    from bloomdupe.feeds.exporter import FeedExporter
    from bloomdupe.feeds.feed import Feed
    from bloomdupe.moving.stream_output import ItemEntry
    from bloomdupe.store.participant import Part

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

    It is a crawl of which only the items come here: its feeds are those of a crawl with
    a ``JOBDIR``, and the collection takes the place of the store. ``progress`` is
    called with numbers of bytes that have become durable.
    """

    def __init__(
        self,
        output: StreamOutput,
        collection: Collection,
        feeds: FeedExporter,
        *,
        delete: bool,
        progress: Callable[[int], None],
    ) -> None:
        self._output = output
        self._collection = collection
        self._feeds = feeds
        self._numbered = [*feeds.taken.values()]
        """All feeds, in the order of the crawl."""
        self._before = [feed.items for feed in self._numbered]
        self._delete = delete
        self._progress = progress
        self._deleted = 0
        self._finished = self._failed = self._undelivered = False

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
        the settings do not have. Relative paths begin in the directory.
        """
        check_names()
        output = StreamOutput.open(url)
        with ExitStack() as undo:
            undo.callback(output.close)
            if not output.feeds:
                raise FeedError(
                    f"{output.shown} has no feeds, so there is nothing to collect"
                )
            collection = Collection(directory, output, rest=rest)
            undo.callback(collection.close)
            feeds = exporter_with(
                output.feeds, settings, output.spider, named, output.shown
            )
            feeds.here = directory
            if any(map(parameters, feeds.feeds)):
                raise StoreMismatchError(f"a feed lacks parameters: {[*feeds.feeds]}")
            if collection.is_new:
                _check_places(feeds)
            left = StoredFeeds(
                collection.entries,
                collection.store,
                resumed=not collection.is_new,
                anew="collect into another directory",
            )
            feeds.restore(left, _not_here, _not_here)
            undo.pop_all()
        return cls(output, collection, feeds, delete=delete, progress=progress)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._feeds.release()
        self._collection.close()
        self._output.close()

    @property
    def result(self) -> Collected:
        """The result so far."""
        files = {}
        for feed, before in zip(self._numbered, self._before, strict=True):
            place = local_path(feed.slot, self._feeds.here)
            files[feed.name] = CollectedFile(
                without_secret(feed.slot.uri) if place is None else str(place),
                feed.items - before,
                place.stat().st_size if place and place.exists() else 0,
                isinstance(feed, WaitingFeed),
            )
        return Collected(
            files, self._deleted, self._finished, self._failed, self._undelivered
        )

    # Collecting

    def run(self, follow: float | None = None) -> None:
        """Collect the output in Redis, or ``follow`` the crawl until it has ended.

        That is the number of seconds between two reads. Meanwhile Redis may be away.
        Storages get the files when the crawl has ended.
        """
        run(self._run(follow), self._feeds, [feed.slot for feed in self._numbered])

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
        if not await self._feeds.deliver():
            self._failed = self._undelivered = True

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
        """Yield what the items of an entry add to the feeds.

        An appended feed lacks an item for which its exporter fails.
        """
        for data in entry.items:
            try:
                feeds, item = self._read(data)
                lines, failed = self._feeds.lines_of(item, feeds)
            except (UnserializableError, ValueError) as error:
                raise StoreMismatchError(
                    f"{self._output.shown}: an item of {entry.shown} cannot be read"
                    f" here: {error}. Run this in the folder of the project; the items"
                    " before it are collected"
                ) from error
            yield from lines
            for feed, failure in failed:
                self._failed = True
                logger.error(
                    "The feed %(uri)s lacks an item, because its exporter fails for"
                    " it with %(error)r: %(item).200r",
                    {"uri": feed.name, "error": failure, "item": item},
                )

    def _read(self, data: bytes) -> tuple[list[Feed | WaitingFeed], object]:
        numbers, packed = Journal.unpacked(data)
        if not numbers or max(numbers) >= len(self._numbered):
            raise ValueError("it has no feed")
        return [self._numbered[number] for number in numbers], unpack(packed)

    def _write(self, lines: list[tuple[int, bytes]], position: str) -> None:
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


def _check_places(feeds: FeedExporter) -> None:
    """Refuse files that are there and were not collected."""
    for template, options in feeds.feeds.items():
        place = local_path(feeds.new_slot(template, options, 1), feeds.here)
        if place is None or options.get("overwrite"):
            continue
        if place.exists() and place.stat().st_size:
            raise FeedChangedError(
                f"{place} is there, and was not collected by bloomdupe: there is no"
                f" {RECORD} in {feeds.here}. Move it away, or collect into another"
                " directory"
            )


def _not_here(*_: object) -> None:
    """Stand for a function of a crawl: no item is scraped here."""


FORMAT = 3
RECORD = ".collected"
LOCK = ".collected.lock"
LATER = "the missing items are still in Redis: run the same command again"
ANEW = "if nothing was deleted from Redis, collect all of it into a new directory"


class Collection:
    """The record of a directory of feeds; it takes the place of a job's store.

    The directory holds the files of the feeds, ``.collected.lock``, which a single
    process locks, ``.collected.feeds`` with the pieces and the journal of the feeds,
    and ``.collected``, the record, in JSON:

    ``format``    3; any other format is refused
    ``frontier``  the mark that identifies the crawl
    ``position``  the output up to there is durable here
    ``entries``   see :class:`~bloomdupe.feeds.stored_feeds.StoredFeeds`

    So after any end of the process, record, pieces, journal and files together hold all
    items up to the position.

    It is begun if it is not there. Raises
    :class:`~bloomdupe.errors.StoreLockedError` if another process has it.
    """

    def __init__(self, directory: Path, output: StreamOutput, *, rest: bool) -> None:
        self.directory = directory
        self.store = directory / RECORD
        """The path beside which the pieces and the journal are."""
        self.position = output.start(rest=rest)
        """The position in the output up to which it is durable here."""
        self.entries: dict[str, Any] = {}
        """The entries of the feeds, as of the last commit."""
        self._mark = output.mark
        with explained(f"cannot collect into {directory}", directory):
            make_directory(directory)
            self._lock = lock_owner(directory, LOCK)
            try:
                self.is_new = not self._read(output.shown)
                """Whether it was begun by this process."""
            except BaseException:
                self.close()
                raise

    def commit(self, part: Part, position: str) -> None:
        """Make a part of the feeds durable, with the output up to this position.

        Raises :class:`~bloomdupe.errors.StoreError`; then the last commit stands.
        """
        record = {
            "format": FORMAT,
            "frontier": self._mark,
            "position": position,
            "entries": part.entries,
        }
        what = f"cannot write into {self.directory}"
        with explained(what, self.directory, LATER):
            write_json(self.store, record)
        self.position, self.entries = position, part.entries

    def close(self) -> None:
        """Release the directory; nothing is written."""
        self._lock.close()

    def _read(self, shown: str) -> bool:
        """Read the record, if there is one.

        Raises :class:`~bloomdupe.errors.StoreDamagedError`, or
        :class:`~bloomdupe.errors.StoreMismatchError` for that of another crawl.
        """
        try:
            record = read_json(self.store)
            if record is None:
                return False
            self.position = str(record["position"])
            self.entries = dict(record["entries"])
            format_, mark = record["format"], record["frontier"]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StoreDamagedError(
                f"{self.store} is damaged: {error}. Put it back as it was; or, {ANEW}"
            ) from error
        if format_ != FORMAT:
            raise StoreMismatchError(
                f"{self.store} has format {format_!r}, this version of bloomdupe reads"
                f" format {FORMAT}; use the version that wrote it"
            )
        if mark != self._mark:
            raise StoreMismatchError(
                f"{self.directory} was collected from another crawl, or before {shown}"
                " was made anew. Collect into another directory"
            )
        return True
