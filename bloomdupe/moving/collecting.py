"""Collecting: brings the output of shared workers from Redis into their feeds."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.progress.rounds import FINISHED
from bloomdupe.errors import (
    FeedChangedError,
    FeedError,
    StoreDamagedError,
    StoreError,
    StoreMismatchError,
    StoreUnreachableError,
)
from bloomdupe.feeds.feed import waits
from bloomdupe.feeds.feed_format import local_path
from bloomdupe.feeds.journal import unpacked
from bloomdupe.feeds.stored_feeds import StoredFeeds
from bloomdupe.filter.contents import stored_record
from bloomdupe.frontier.held_frontier import CONTROL
from bloomdupe.inside_scrapy.private_names import check_names
from bloomdupe.moving.delivering import exporter_with, run
from bloomdupe.printable import logger_of
from bloomdupe.requests.values import unpack
from bloomdupe.store.files import lock_owner, make_directory, read_json, write_json
from bloomdupe.store.redis.address import Address
from bloomdupe.store.redis.client import Client, lua
from bloomdupe.store.redis.crawl_reader import CrawlOnRedis
from bloomdupe.store.redis.redis_store import RedisStore
from bloomdupe.store.system_errors import explained

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from scrapy.settings import Settings

logger = logger_of(__name__)

FORGET = lua("forget")
BEGIN = "0-0"
"""The position before all entries."""
YOUNG = 3.0
"""Seconds for which an entry is left alone. A Redis that is killed may come back
without it, and its items come again: they must not be in any file by then."""
PAUSE = 1.0
"""Seconds between two reads, if a crawl is followed."""
AT_ONCE = 20
"""Entries to read at once, whose items become durable together; each has about a
megabyte at most, or one item."""
FORMAT = 3
RECORD = ".collected"
LOCK = ".collected.lock"
LATER = "the missing items are still in Redis: run the same command again"
ANEW = "if nothing was deleted from Redis, collect all of it into a new directory"


class StreamOutput:
    """The entries of a crawl in their order, of which those collected can be deleted.

    A position is the name of an entry, which has the time of Redis in milliseconds.
    Every method may be called again after a
    :class:`~bloomdupe.errors.StoreUnreachableError`.
    """

    def __init__(self, client: Client) -> None:
        self._client, self._crawl = client, CrawlOnRedis(client)
        self.shown = client.address.shown
        """The crawl, for messages."""
        if not self._crawl.read_head():
            raise StoreError(f"{self.shown}: there is no crawl of this name")
        header = self._header
        identity = header.get("identity", {})
        self.spider = str(identity.get("spider") or "unknown")
        self.feeds: list[str] = identity.get("feeds") or []
        """The names of its feeds."""
        if not self.feeds or not all(isinstance(name, str) for name in self.feeds):
            raise FeedError(f"{self.shown} has no feeds: there is nothing to collect")
        self.mark = str(header["key"])
        """Identifies the crawl; another crawl of the same name has another mark."""

    @property
    def _header(self) -> dict[str, Any]:
        return RedisStore(self._crawl, CONTROL).header

    @property
    def forgotten(self) -> str:
        """The first entry that is left, which is collected; all before are deleted."""
        return self._crawl.read_head().get("forgotten", BEGIN)

    def check_still_there(self) -> None:
        """Raise :class:`~bloomdupe.errors.StoreError` if it is another crawl by now."""
        if not self._crawl.read_head():
            raise self._crawl.gone()
        if str(self._header.get("key")) != self.mark:
            raise StoreMismatchError(
                f"{self.shown}: this crawl was removed, and another one has its name"
            )

    def status(self) -> tuple[bool, bool]:
        """Whether the crawl has ended, and whether a worker is at work on it.

        If it has ended, nothing is left to do, and what is read from now on is all
        there is. The leader records that. If it has died before, a worker that begins
        does: until then, as in a directory, the crawl was killed.
        """
        sample = self._crawl.sample(self._crawl.partitions)
        run = stored_record(RedisStore(self._crawl, CONTROL))["notes"].get("run")
        return sample.finished and run == FINISHED, bool(sample.owners)

    def _last(self) -> str:
        """Return the last entry; wait until it is old enough to be read."""
        output = self._crawl.keys.output
        last = self._client.ask("XREVRANGE", output, "+", "-", "COUNT", 1)
        if not last:
            return BEGIN
        name: str = last[0][0].decode()
        seconds, micros = map(int, self._client.ask("TIME"))
        age = seconds + micros / 1e6 - _key_of(name)[0] / 1000
        time.sleep(min(max(0.0, YOUNG - age), YOUNG))
        return name

    def check_kept(self, after: str) -> None:
        """Raise :class:`StoreMismatchError` if entries after it were deleted."""
        if _key_of(self.forgotten) > _key_of(after):
            raise StoreMismatchError(
                f"{self.shown}: a part of the output was deleted by another `bloomdupe"
                " collect --delete`; collect into its directory, or add --rest to"
                " collect what is left into a new one"
            )

    def items(self, after: str) -> Iterator[tuple[str, list[bytes]]]:
        """Yield the items after a position that are there now, and their position.

        They are as :func:`bloomdupe.feeds.journal.packed` returns them, some entries
        together. The entry at the position is read with them: it tells whether they
        follow it. Raises :class:`~bloomdupe.errors.StoreError` if it is not there.
        """
        self.check_kept(after)
        end, output = max(self._last(), after, key=_key_of), self._crawl.keys.output
        while True:
            found = self._client.ask("XRANGE", output, after, end, "COUNT", AT_ONCE + 1)
            if after != BEGIN and not (found and found[0][0].decode() == after):
                remedy = "Collect all of it into a new directory"
                if self.forgotten != BEGIN:
                    remedy = "Collect what is left into a new directory, with --rest"
                raise StoreDamagedError(
                    f"{self.shown}: Redis has gone back to older data, in which items"
                    " that are collected here are missing; their pages are done again,"
                    f" so they would come twice. {remedy}"
                )
            some = found[after != BEGIN :]
            if some:
                after = some[-1][0].decode()
                yield after, [item for _, fields in some for item in fields.values()]
            if len(found) <= AT_ONCE:
                return

    def forget(self, position: str) -> int:
        """Delete the entries before a position; return how many entries went.

        The entry at the position stays, so that it can be looked for.
        """
        if position == BEGIN or _key_of(position) <= _key_of(self.forgotten):
            return 0
        keys = self._crawl.keys
        return int(self._client.run(FORGET, (keys.output, keys.head), position))


def _key_of(position: str) -> tuple[int, ...]:
    """Return a position in its order: milliseconds of Unix time, and a number."""
    return tuple(map(int, position.split("-")))


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
        self.result = {
            "deleted": 0, "finished": False, "failed": False, "undelivered": False
        }  # fmt: skip
        """For JSON: entries ``deleted`` from Redis, each with an item or more; whether
        the crawl had ``finished`` before the last read: then nothing is missing;
        whether a storage or an exporter has ``failed``; and whether a feed is
        ``undelivered`` then."""
        with ExitStack() as undo:
            client = undo.enter_context(closing(Client(Address.of(url), patience=0)))
            self._output = output = StreamOutput(client)
            with explained(f"cannot collect into {directory}", directory):
                make_directory(directory)
                undo.enter_context(lock_owner(directory, LOCK))
                record = self._read()
            is_new = not record
            begin = output.forgotten if rest else BEGIN
            self._position: str = record.get("position", begin)
            output.check_kept(self._position)
            self._feeds = feeds = exporter_with(
                output.feeds, settings, output.spider, named, output.shown
            )
            feeds.here = directory
            left = StoredFeeds(
                record.get("entries", {}),
                directory / RECORD,
                resumed=not is_new,
                anew="collect into another directory",
            )
            feeds.restore(left)
            undo.callback(feeds.release)
            if is_new:
                self._check_places()
            self._before = [feed.slot.itemcount for feed in feeds.taken]
            self._opened = undo.pop_all()

    def close(self) -> None:
        """Close the connection, and release the directory; nothing is written."""
        self._opened.close()

    def _read(self) -> dict[str, Any]:
        """Read the record, empty if there is none; refuse that of another crawl."""
        place = self._directory / RECORD
        try:
            record = read_json(place)
            if record is None:
                return {}
            if record["format"] != FORMAT:
                raise ValueError(f"its format is not {FORMAT}")
            mark, _, _ = (record[name] for name in ("frontier", "position", "entries"))
        except (KeyError, TypeError, ValueError) as error:
            raise StoreDamagedError(
                f"{place} is damaged: {error}. Put it back as it was; or, {ANEW}"
            ) from error
        if mark != self._output.mark:
            raise StoreMismatchError(
                f"{self._directory} was collected from another crawl, or before"
                f" {self._output.shown} was made anew. Collect into another directory"
            )
        return record

    def _check_places(self) -> None:
        """Refuse files that are there and were not collected."""
        for feed in self._feeds.taken:
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
    def files(self) -> list[dict[str, Any]]:
        """A record for each feed, for JSON.

        That is the ``place`` (the path of its first file, or its URI), the items
        ``added``, and the ``bytes`` that are committed, None if it waits for the end.
        """
        here = self._feeds.here
        return [
            {
                "place": str(local_path(feed.slot, here) or feed.record["uri"]),
                "added": feed.slot.itemcount - before,
                "bytes": None if waits(feed.record) else feed.record["size"] or 0,
            }
            for feed, before in zip(self._feeds.taken, self._before, strict=True)
        ]

    # Collecting

    def run(self, *, follow: bool = False) -> None:
        """Collect the output in Redis, or ``follow`` the crawl until it has ended.

        Meanwhile Redis may be away. Storages get the files when the crawl has ended.
        """
        run(self._run(follow=follow), self._feeds)

    async def _run(self, *, follow: bool) -> None:
        self._write([], self._position)
        said = ""
        while True:
            try:
                waits = await self._collect()
            except StoreUnreachableError as error:
                if not follow:
                    raise
                waits = f"{error}. Waiting for it"
            if self.result["finished"] or not follow:
                break
            if waits and waits != said:
                logger.warning("%(reason)s", {"reason": waits})
            said = waits
            await asyncio.sleep(PAUSE)
        self._feeds.end(finished=bool(self.result["finished"]))
        self._write([], self._position)
        if not await self._feeds.deliver():
            self.result |= {"failed": True, "undelivered": True}

    async def _collect(self) -> str:
        """Collect the output in Redis; then it is known whether the crawl had ended.

        Return for what a crawl that has not ended waits, if it waits.
        """
        self._output.check_still_there()
        finished, goes_on = self._output.status()
        for position, items in self._output.items(self._position):
            self._write([*self._lines_of(items, position)], position)
            self._forget()
            await asyncio.sleep(0)
        self._forget()  # what was collected before
        self.result["finished"] = finished
        if goes_on:
            return ""
        return (
            f"{self._output.shown} has not ended, and no worker crawls it. Waiting for"
            " one; Ctrl-C ends this"
        )

    def _forget(self) -> None:
        if self._delete:
            self.result["deleted"] += self._output.forget(self._position)

    def _lines_of(
        self, items: list[bytes], position: str
    ) -> Iterator[tuple[int, bytes]]:
        """Yield what items up to a position add to the feeds.

        An appended feed lacks an item for which its exporter fails.
        """
        for data in items:
            try:
                numbers, packed = unpacked(data)
                if not numbers or max(numbers) >= len(self._feeds.taken):
                    raise ValueError("it has no feed")
                feeds = [self._feeds.taken[n] for n in numbers]
                item = unpack(packed, exported=True)
                lines, failed = self._feeds.lines_of(item, feeds)
            except ValueError as error:
                raise StoreMismatchError(
                    f"{self._output.shown}: an item of the output up to entry"
                    f" {position} cannot be read here: {error}. Run this in the folder"
                    " of the project"
                ) from error
            yield from lines
            for feed, failure in failed:
                self.result["failed"] = True
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
