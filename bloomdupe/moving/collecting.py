"""Collecting: brings the output of shared workers from Redis into their feeds."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

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
from bloomdupe.feeds.journal import unpacked
from bloomdupe.feeds.stored_feeds import StoredFeeds
from bloomdupe.inside_scrapy.private_names import check_names
from bloomdupe.moving.delivering import exporter_with, run
from bloomdupe.moving.stream_output import BEGIN, StreamOutput
from bloomdupe.printable import logger_of
from bloomdupe.requests.values import unpack
from bloomdupe.store.files import lock_owner, make_directory, read_json, write_json
from bloomdupe.store.redis.address import Address
from bloomdupe.store.redis.client import Client
from bloomdupe.store.system_errors import explained

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from scrapy.settings import Settings
    from typing_extensions import Self

    from bloomdupe.moving.stream_output import ItemEntry

logger = logger_of(__name__)

BATCH_BYTES = 1 << 23
"""Bytes of items that become durable together; memory holds a few times as much."""
FORMAT = 3
RECORD = ".collected"
LOCK = ".collected.lock"
LATER = "the missing items are still in Redis: run the same command again"
ANEW = "if nothing was deleted from Redis, collect all of it into a new directory"


class Collecting:
    """Collects the output of a crawl at a URL in a directory, new or begun.

    It is a crawl of which only the items come here: its feeds are those of a crawl with
    a ``JOBDIR``, and a record takes the place of the store. The directory holds the
    files of the feeds, ``.collected.lock``, which a single process locks,
    ``.collected.feeds`` with the pieces and the journal of the feeds, and
    ``.collected``, the record, in JSON:

    ``format``    3; any other format is refused
    ``frontier``  the mark that identifies the crawl
    ``position``  the output up to there is durable here
    ``entries``   see :class:`~bloomdupe.feeds.stored_feeds.StoredFeeds`

    So after any end of the process, record, pieces, journal and files together hold all
    items up to the position.

    ``settings`` are those of the project, see :class:`bloomdupe.jobs.project`. If
    another collection has deleted some of the output from Redis, only the ``rest`` is
    left, and the caller must ask for it. The caller has ``named`` the feeds that the
    settings do not have. Relative paths begin in the directory.

    Raises :class:`~bloomdupe.errors.StoreLockedError` if another process has the
    directory.
    """

    def __init__(
        self,
        url: str,
        directory: Path,
        settings: Settings | None = None,
        *,
        delete: bool = False,
        rest: bool = False,
        named: Sequence[str] = (),
    ) -> None:
        check_names()
        self._directory, self._delete = directory, delete
        self._deleted = 0
        self._finished = self._failed = self._undelivered = False
        with ExitStack() as undo:
            client = undo.enter_context(closing(Client(Address.of(url), patience=0)))
            self._output = output = StreamOutput(client)
            if not output.feeds:
                raise FeedError(
                    f"{output.shown} has no feeds, so there is nothing to collect"
                )
            with explained(f"cannot collect into {directory}", directory):
                make_directory(directory)
                undo.enter_context(lock_owner(directory, LOCK))
                record = self._read()
            self._is_new = record is None
            if record is not None:
                self._position = record["position"]
            else:
                self._position = output.forgotten if rest else BEGIN
            self._feeds = feeds = exporter_with(
                output.feeds, settings, output.spider, named, output.shown
            )
            feeds.here = directory
            if any(map(parameters, feeds.feeds)):
                raise StoreMismatchError(f"a feed lacks parameters: {[*feeds.feeds]}")
            left = StoredFeeds(
                {} if record is None else record["entries"],
                directory / RECORD,
                resumed=record is not None,
                anew="collect into another directory",
            )
            # No item is scraped here.
            feeds.restore(left, lambda *_: None, lambda *_: None)
            undo.callback(feeds.release)
            self._numbered = feeds.taken
            """All feeds, in the order of the crawl."""
            if record is None:
                self._check_places()
            self._before = [feed.slot.itemcount for feed in self._numbered]
            self._opened = undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def _read(self) -> dict[str, Any] | None:
        """Read the record, if there is one, and refuse that of another crawl."""
        place = self._directory / RECORD
        try:
            record = read_json(place)
            if record is None:
                return None
            if record["format"] != FORMAT:
                raise ValueError(f"its format is not {FORMAT}")
            mark = record["frontier"]
            position, entries = str(record["position"]), dict(record["entries"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StoreDamagedError(
                f"{place} is damaged: {error}. Put it back as it was; or, {ANEW}"
            ) from error
        if mark != self._output.mark:
            raise StoreMismatchError(
                f"{self._directory} was collected from another crawl, or before"
                f" {self._output.shown} was made anew. Collect into another directory"
            )
        return {"position": position, "entries": entries}

    def _check_places(self) -> None:
        """Refuse files that are there and were not collected."""
        for feed in self._numbered:
            place = local_path(feed.slot, self._directory)
            if place is None or feed.slot.feed_options.get("overwrite"):
                continue
            if place.exists() and place.stat().st_size:
                raise FeedChangedError(
                    f"{place} is there, and was not collected by bloomdupe: there is no"
                    f" {RECORD} in {self._directory}. Move it away, or collect into"
                    " another directory"
                )

    @property
    def result(self) -> dict[str, Any]:
        """The result so far, as plain types for JSON.

        ``files``        by the name of the feed: ``place`` (the path of its first file,
                         or its URI), the items ``added``, the ``bytes`` of its first
                         file now, and whether they are kept for ``later``
        ``deleted``      entries deleted from Redis; each has an item or more
        ``finished``     whether the crawl had ended before the last read: then nothing
                         is missing
        ``failed``       whether a storage, or an exporter, has failed
        ``undelivered``  whether a feed is not delivered, though the crawl has ended
        """
        files = {}
        for feed, before in zip(self._numbered, self._before, strict=True):
            place = local_path(feed.slot, self._feeds.here)
            files[feed.name] = {
                "place": str(place or without_secret(feed.slot.uri)),
                "added": feed.slot.itemcount - before,
                "bytes": place.stat().st_size if place and place.exists() else 0,
                "later": isinstance(feed, WaitingFeed),
            }
        return {
            "directory": str(self._directory),
            "files": files,
            "deleted": self._deleted,
            "finished": self._finished,
            "failed": self._failed,
            "undelivered": self._undelivered,
        }

    # Collecting

    def run(self, follow: float | None = None) -> None:
        """Collect the output in Redis, or ``follow`` the crawl until it has ended.

        That is the number of seconds between two reads. Meanwhile Redis may be away.
        Storages get the files when the crawl has ended.
        """
        run(self._run(follow), self._feeds, [feed.slot for feed in self._numbered])

    async def _run(self, follow: float | None) -> None:
        if self._is_new:
            self._write([], self._position)
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
        self._write([], self._position)
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
        for entry in self._output.entries(self._position):
            batch.append(entry)
            size += sum(map(len, entry.items))
            if size >= BATCH_BYTES:
                self._keep(batch)
                batch, size = [], 0
                yield
        self._keep(batch)
        self._finished = finished

    def _keep(self, batch: list[ItemEntry]) -> None:
        """Make a batch durable, if its crawl is still there.

        With ``delete``, what is durable here is deleted from Redis.
        """
        if batch:
            lines = [line for entry in batch for line in self._lines_of(entry)]
            self._write(lines, batch[-1].position)
        if self._delete:
            self._deleted += self._output.forget(self._position)

    def _lines_of(self, entry: ItemEntry) -> Iterator[tuple[int, bytes]]:
        """Yield what the items of an entry add to the feeds.

        An appended feed lacks an item for which its exporter fails.
        """
        for data in entry.items:
            try:
                numbers, packed = unpacked(data)
                if not numbers or max(numbers) >= len(self._numbered):
                    raise ValueError("it has no feed")
                feeds, item = [self._numbered[n] for n in numbers], unpack(packed)
                lines, failed = self._feeds.lines_of(item, feeds)
            except (UnserializableError, ValueError) as error:
                raise StoreMismatchError(
                    f"{self._output.shown}: an item of entry {entry.position} of the"
                    f" output cannot be read here: {error}. Run this in the folder of"
                    " the project; the items before it are collected"
                ) from error
            yield from lines
            for feed, failure in failed:
                self._failed = True
                logger.error(
                    "The feed %(uri)s lacks an item, because its exporter fails for"
                    " it with %(error)r: %(item).200r",
                    {"uri": feed.name, "error": failure, "item": item},
                )

    def _write(self, lines: list[tuple[int, bytes]], position: str) -> None:
        """Commit lines and the position behind them, and write the lines to the files.

        After a crash, the next call writes what is committed. Raises
        :class:`~bloomdupe.errors.StoreError`; then the last commit stands.
        """
        part = self._feeds.prepare(lines)
        self._output.check_still_there()
        record = {
            "format": FORMAT,
            "frontier": self._output.mark,
            "position": position,
            "entries": part.entries,
        }
        with explained(f"cannot write into {self._directory}", self._directory, LATER):
            write_json(self._directory / RECORD, record)
        self._position = position
        part.done()
        self._feeds.append()
