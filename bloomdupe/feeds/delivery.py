"""Deliveries: Scrapy's own exporters and storages write feeds from the journal."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from mmh3 import mmh3_x64_128_digest
from scrapy.utils.defer import ensure_awaitable

from bloomdupe.feeds.feed_format import described, local_path, replaces
from bloomdupe.printable import logger_of
from bloomdupe.requests.values import unpack_item
from bloomdupe.store.files import (
    lock_owner,
    make_directory,
    read_bytes,
    sync_directory,
)
from bloomdupe.store.platform import sync
from bloomdupe.store.system_errors import explained

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from scrapy import Spider
    from scrapy.extensions.feedexport import FeedSlot

    from bloomdupe.feeds.feed import WaitingFeed
    from bloomdupe.feeds.stored_feeds import StoredFeeds
    from bloomdupe.inside_scrapy.feed_exporter import FeedExporterAccess

logger = logger_of(__name__)


async def deliver(
    exporter: FeedExporterAccess, left: StoredFeeds, feeds: Iterable[WaitingFeed]
) -> list[tuple[FeedSlot, bool]]:
    """Write the items in the journal to the storages of feeds.

    Returns the slot of each file, and whether its storage has accepted it; if not, the
    log says why. The crawl has finished: a batch that is not full is delivered, too.
    """
    place, told = left.directory, set[str]()

    def changed(name: str, why: Exception) -> None:
        if name not in told:
            told.add(name)
            logger.warning(
                "In feeds, %(name)s is replaced by its fields: %(why)s",
                {"name": name, "why": why},
            )

    with explained(f"cannot write feeds from {place}", place):
        make_directory(place, 0o700)
        with lock_owner(place):
            return [
                made
                for feed in feeds
                async for made in _files_of(feed, exporter, left, changed)
            ]


async def _files_of(
    feed: WaitingFeed,
    exporter: FeedExporterAccess,
    left: StoredFeeds,
    changed: Callable[[str, Exception], None],
) -> AsyncIterator[tuple[FeedSlot, bool]]:
    slot, delivered = feed.slot, left.delivered
    options = slot.feed_options
    try:
        record = delivered.get(feed.name, feed.record["begin"])
        while delivered.lacks(feed.number, record) or (
            options["store_empty"] and record["batch"] == 1
        ):
            batch: int = record["batch"]
            # Each batch has a time of its own, and the same one after a kill.
            begun = left.moment + timedelta(microseconds=batch - 1)
            slot = exporter.new_slot(
                slot.uri_template, options, batch, left.moment, begun
            )
            record = await _hand_over(feed, slot, record, exporter, left, changed)
            yield slot, True
    except Exception:
        logger.exception(
            "Error storing the feed (%(count)d items) in: %(uri)s. It is kept in"
            " %(place)s, and stored when the same command is run again",
            {
                **described(slot),
                "count": feed.slot.itemcount,
                "place": left.journal.place,
            },
        )
        yield slot, False


async def _hand_over(
    feed: WaitingFeed,
    slot: FeedSlot,
    record: dict[str, Any],
    exporter: FeedExporterAccess,
    left: StoredFeeds,
    changed: Callable[[str, Exception], None],
) -> dict[str, Any]:
    """Write a file, and give it to its storage; return the new record."""
    most = slot.feed_options["batch_item_count"] or None
    anew, put = replaces(slot), left.delivered.put
    start = feed.record["begin"] if anew and not most else record["end"]
    bases, number = record.get("bases", {}), str(record["batch"])
    if most and record["batch"] < record.get("again", 0):
        anew = True
    place, storage = local_path(slot, exporter.here), slot.storage
    target = None
    if place is not None:
        target = Target(
            place, start, record.get("target"), empty_before=anew,
            base=bases.get(number, 0),
        )  # fmt: skip
        start, slot.storage = target.start, target
    done = {**record, "batch": record["batch"] + 1}
    try:
        slot.start_exporting()
        assert slot.exporter is not None  # noqa: S101 - it has started
        items = left.journal.of(feed.number, start)
        for done["end"], data in islice(items, most):
            slot.exporter.export_item(unpack_item(data, changed))
            slot.itemcount += 1
        slot.finish_exporting()
    except BaseException:
        if target is not None:
            target.discard()
        raise
    finally:
        slot.storage = storage
    file = exporter.file_of(slot)
    if target is not None:
        done["target"] = target.prepare(file)
        put(feed.name, {**record, "target": done["target"]})
        target.store(file)
    else:
        if hasattr(file, "flush") and not getattr(file, "closed", False):
            file.flush()
        await ensure_awaitable(storage.store(file))
    if most and (base := done.pop("target", {}).get("base")):
        done["bases"] = {**bases, number: base}
    put(feed.name, done)
    return done


TAIL_BYTES = 4096
"""Bytes at the end of a file by which it is recognized."""


class Target:
    """Replaces Scrapy's storage for local files.

    The new content is written to another file beside the place, which is then renamed.
    It begins with the first ``base`` bytes of the present content. ``last`` is what
    :meth:`prepare` has returned before, by which it is recognized:

    ``base``   bytes before the items of the delivery
    ``start``  position in the journal of these items
    ``ends``   sizes of the file, with digests of the last 4,096 bytes, that the
               delivery has left, or may have left

    A file that is as it was left gets its last items again, with the new ones. A file
    that was changed belongs to the user: the new items, from ``start`` on, are added.
    ``empty_before`` says that nothing is before the items but ``base`` bytes.
    """

    def __init__(
        self,
        place: Path,
        start: int,
        last: dict[str, Any] | None,
        *,
        empty_before: bool,
        base: int = 0,
    ) -> None:
        self._place = Path(os.path.realpath(place))
        self._beside = self._place.with_name(f".{self._place.name}.part")
        self._base, self.start = base, start
        self._ends: list[list[Any]] = []
        self._file: IO[bytes] | None = None
        if empty_before or not self._place.exists():
            return
        now = _end_of(self._place)
        if last is not None and now in last["ends"]:
            self._base, self.start, self._ends = last["base"], last["start"], [now]
        else:
            self._base = now[0]

    def open(self, _: Spider) -> IO[bytes]:
        """Open the file beside the place, for writing."""
        make_directory(self._place.parent)
        self._beside.unlink(missing_ok=True)

        def opener(_: str, flags: int) -> int:
            return os.open(self._beside, flags, 0o666)

        # A file of gzip has its name within it.
        file = open(str(self._place), "xb", opener=opener)  # noqa: SIM115 - it is kept
        self._file = file
        if self._place.exists():
            shutil.copymode(self._place, self._beside)
            with self._place.open("rb") as before:
                left = self._base
                while data := before.read(min(left, 1 << 18)):
                    left -= file.write(data)
        return file

    def discard(self) -> None:
        """Close and remove the file: the export has failed, perhaps for a full disk."""
        if self._file is not None:
            with suppress(OSError):  # the first error says what has gone wrong
                self._file.close()
            with suppress(OSError):
                self._beside.unlink()

    def prepare(self, file: IO[bytes]) -> dict[str, Any]:
        """Sync the file; return what is to be known before :meth:`store`."""
        if not file.closed:  # by a plugin, as Scrapy's documentation has it
            file.close()
        with self._beside.open("rb") as written:
            sync(written.fileno())
        ends = [*self._ends, _end_of(self._beside)]
        return {"base": self._base, "start": self.start, "ends": ends}

    def store(self, _: IO[bytes]) -> None:
        """Move the file to its place."""
        self._beside.replace(self._place)
        sync_directory(self._place.parent)


def _end_of(place: Path) -> list[Any]:
    """Return the size of a file, and the digest of its end; a copy has the same."""
    size = place.stat().st_size
    tail = read_bytes(place, max(0, size - TAIL_BYTES), size)
    return [size, mmh3_x64_128_digest(tail).hex()]
