"""OldDeliveries: brings complete files of the spool to their storages."""

from __future__ import annotations

import inspect
import os
import shutil
from collections import deque
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred

from bloomdupe.crawl.engines.on_redis.going.feeds.content import (
    digest,
    ends_at,
    tail_of,
)
from bloomdupe.crawl.engines.on_redis.going.feeds.old_feed import full_uri
from bloomdupe.crawl.engines.on_redis.going.feeds.old_feed_format import local_path
from bloomdupe.crawl.engines.on_redis.going.feeds.spool import Items
from bloomdupe.inside_scrapy.engine import mark_failed
from bloomdupe.inside_scrapy.helpers import PostProcessingManager
from bloomdupe.printable import logger_of
from bloomdupe.store.files import (
    make_directory,
    read_json,
    sync_directory,
    write_json,
)
from bloomdupe.store.platform import sync

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from scrapy import Spider
    from scrapy.extensions.feedexport import FeedSlot

    from bloomdupe.crawl.engines.on_redis.going.feeds.spool import Spool
    from bloomdupe.inside_scrapy.feed_exporter import FeedExporterAccess


logger = logger_of(__name__)

CHUNK = 1 << 18


@dataclass(frozen=True)
class OldDelivery:
    """A complete file in the spool, and its destination."""

    feed: str
    """Name of the feed."""
    uri: str
    """Without name and password, which come from the settings."""
    batch: int
    items: int
    path: str
    """Name in the spool."""
    size: int
    """Bytes."""
    whole: bool
    """Whether it holds the output of the exporter, and not the items."""


class OldDeliveries:
    """Files to be delivered to storages, one after the other.

    The store keeps a list of them. When a storage has accepted a file, a *receipt* is
    put beside it in the spool, because the store may be closed by then; the next commit
    drops the delivery, and then the receipt is removed. The file is removed as soon as
    it is not in use (``in_use`` returns the names of the files that are in the store).
    If the process dies meanwhile, the whole file is delivered again.
    """

    def __init__(
        self,
        access: FeedExporterAccess,
        spool: Spool,
        tell: Callable[[FeedSlot, bool], None],
        in_use: Callable[[], Collection[str]],
    ) -> None:
        self._access = access
        self._spool = spool
        self._tell = tell
        self._in_use = in_use
        self._feeds: dict[str, tuple[str, dict[str, Any]]] = {}
        self._waiting: dict[str, OldDelivery] = {}
        self._queue: deque[OldDelivery] = deque()
        self._gone: set[str] = set()
        self._worker: Deferred[None] | None = None
        self.sizes: dict[str, int] = {}
        """Sizes of delivered files, by name."""

    # Records of the store

    def restore(self, records: Iterable[dict[str, Any]]) -> None:
        """Restore the deliveries of the last run."""
        for record in records:
            delivery = OldDelivery(**record)
            if self._has_receipt(delivery):
                self._taken(delivery)
            else:
                self._waiting[delivery.path] = delivery

    def records(self, changed: Collection[str], new: list[OldDelivery]) -> list[Any]:
        """Return the records for the store.

        Files of these names have ``changed``, so they are delivered later.
        """
        rest = {n: d for n, d in self._waiting.items() if n not in changed}
        rest |= {delivery.path: delivery for delivery in new}
        return [asdict(delivery) for delivery in rest.values()]

    @property
    def gone(self) -> set[str]:
        """Names of files that the store does not need any more."""
        return set(self._gone)

    def committed(self, changed: Collection[str], new: list[OldDelivery]) -> None:
        """Update the list after :meth:`records` was committed."""
        for name in changed:
            self._waiting.pop(name, None)
        self._queue = deque(d for d in self._queue if d.path in self._waiting)
        for delivery in new:
            self._waiting[delivery.path] = delivery
            self._queue.append(delivery)

    def forget(self, name: str) -> None:
        """Remove a file with the next commit, unless it is still to be delivered."""
        if name not in self._waiting:
            self._gone.add(name)

    def tidy(self, gone: set[str]) -> None:
        """Remove the files of deliveries that are not in the store any more."""
        for name in gone:
            self._receipt(name).unlink(missing_ok=True)
            if self._remove(name):
                self._gone.discard(name)

    def _remove(self, name: str) -> bool:
        """Remove a file; False if it is still in use."""
        if name in self._in_use():
            return False
        self._spool.place(name).unlink(missing_ok=True)
        return True

    # OldDeliveries

    def set_feeds(self, feeds: dict[str, tuple[str, dict[str, Any]]]) -> None:
        """Set the feeds of this run: template and options by name."""
        self._feeds = feeds
        for delivery in self._waiting.values():
            if delivery.feed in feeds:
                self._queue.append(delivery)
            else:
                logger.warning(
                    "The feed %(uri)s (%(items)d items) is not delivered, because this"
                    " run has no such feed: it stays in %(place)s until a run has it",
                    {
                        "uri": delivery.uri,
                        "items": delivery.items,
                        "place": self._spool.place(delivery.path),
                    },
                    extra={"spider": self._access.crawler.spider},
                )

    def start(self) -> None:
        """Deliver complete files, while the crawl goes on."""
        if self._queue and self._worker is None:
            self._worker = deferred_from_coro(self._work())

    async def finish(self) -> None:
        """Deliver all complete files."""
        while self._queue or self._worker is not None:
            self.start()
            if self._worker is not None:
                await maybe_deferred_to_future(self._worker)

    async def _work(self) -> None:
        try:
            while self._queue:
                await self._deliver(self._queue.popleft())
        finally:
            self._worker = None

    async def _deliver(self, delivery: OldDelivery) -> None:
        template, options = self._feeds[delivery.feed]
        access = self._access
        try:
            uri = full_uri(access, template, options, delivery.uri)
            slot = access.new_slot(template, options, delivery.batch, uri)
        except Exception:  # noqa: BLE001 - of any class in the settings
            self._log_failure(delivery)
            return
        slot.itemcount = delivery.items
        try:
            await self._hand_over(slot, delivery)
        except Exception:  # noqa: BLE001 - of a storage, an exporter, a plugin
            self._log_failure(delivery)
            self._tell(slot, False)
        else:
            self._taken(delivery)
            self._remove(delivery.path)
            self._tell(slot, True)

    async def _hand_over(self, slot: FeedSlot, delivery: OldDelivery) -> None:
        place = local_path(slot, self._access.here)
        target = None
        if place is not None:  # written beside it first
            target = OldTarget(
                place, overwrite=bool(slot.feed_options.get("overwrite"))
            )
        storage: Any = slot.storage if target is None else target
        file = out = storage.open(slot.spider)
        plugins = slot.feed_options.get("postprocessing")
        if plugins:
            out = PostProcessingManager(plugins, file, slot.feed_options)
        # In the slot, as in Scrapy: when it is deleted, it closes the plugins again.
        slot.file = out
        self._write(slot, out, delivery)
        if plugins:
            out.close()
        if hasattr(file, "flush") and not getattr(file, "closed", False):
            file.flush()
        if target is not None:
            self._write_receipt(delivery, target.prepare())
        result: Any = storage.store(file)
        if isinstance(result, Deferred):
            result = maybe_deferred_to_future(result)
        if inspect.isawaitable(result):
            await result
        self._write_receipt(delivery, None)

    def _log_failure(self, delivery: OldDelivery) -> None:
        mark_failed(self._access.crawler)
        logger.exception(
            "Error storing the feed (%(count)d items) in: %(uri)s. It is kept in"
            " %(place)s, and stored when the same command is run again",
            {
                "count": delivery.items,
                "uri": delivery.uri,
                "place": self._spool.place(delivery.path),
            },
            extra={"spider": self._access.crawler.spider},
        )

    def _write(self, slot: FeedSlot, out: IO[bytes], delivery: OldDelivery) -> None:
        """Write to the file that the storage has opened."""
        load = self._spool.load
        with self._spool.open(delivery.path) as file:
            if os.fstat(file.fileno()).st_size < delivery.size:
                raise OSError(f"{delivery.path} was cut by another program")
            if delivery.whole:
                _copy(file, out, delivery.size)
            else:
                self._export(slot, out, Items.read(file, delivery.size, load))

    def _export(self, slot: FeedSlot, out: IO[bytes], items: Iterable[object]) -> None:
        """Export the items; if the exporter fails for one, the delivery fails."""
        slot.exporter = exporter = self._access.new_exporter(slot, out)
        exporter.start_exporting()
        for item in items:
            exporter.export_item(item)
        exporter.finish_exporting()

    # Receipts

    def _taken(self, delivery: OldDelivery) -> None:
        self._waiting.pop(delivery.path, None)
        self._gone.add(delivery.path)
        self.sizes[delivery.path] = delivery.size

    def _receipt(self, name: str) -> Path:
        return self._spool.place(f"{name}.delivered")

    def _write_receipt(
        self, delivery: OldDelivery, target: dict[str, Any] | None
    ) -> None:
        """Write a receipt for a file that was delivered.

        With ``target``, it is valid only if the target has this state.
        """
        receipt = {"size": delivery.size, "target": target}
        write_json(self._receipt(delivery.path), receipt)

    def _has_receipt(self, delivery: OldDelivery) -> bool:
        with suppress(ValueError):
            receipt = read_json(self._receipt(delivery.path))
            if receipt is not None and receipt["size"] == delivery.size:
                target = receipt["target"]
                return target is None or OldTarget.is_there(target)
        return False


def _copy(file: IO[bytes], out: IO[bytes], size: int) -> None:
    while size:
        data = file.read(min(size, CHUNK))
        out.write(data)
        size -= len(data)


class OldTarget:
    """Replaces Scrapy's storage for local files.

    The new content is written to another file beside the place, which is then renamed.
    Unless ``overwrite``, it begins with the old content.
    """

    def __init__(self, place: Path, *, overwrite: bool) -> None:
        self._place = Path(os.path.realpath(place))
        self._beside = self._place.with_name(f".{self._place.name}.part")
        self._overwrite = overwrite
        self._file: IO[bytes] | None = None

    def open(self, _: Spider) -> IO[bytes]:
        """Open the file beside the place, for writing."""
        make_directory(self._place.parent)
        self._beside.unlink(missing_ok=True)
        self._file = file = self._beside.open("xb")
        if self._place.exists():
            shutil.copymode(self._place, self._beside)
            if not self._overwrite:
                with self._place.open("rb") as before:
                    shutil.copyfileobj(before, file)
        return file

    def prepare(self) -> dict[str, Any]:
        """Sync the file, and return the state that it will have in its place."""
        assert self._file is not None  # noqa: S101 - it was opened
        if not self._file.closed:  # by a plugin, as Scrapy's documentation has it
            self._file.flush()
        with self._beside.open("rb") as written:
            sync(written.fileno())
        size = self._beside.stat().st_size
        tail = digest(tail_of(self._beside, size))
        return {"path": str(self._place), "size": size, "tail": tail}

    def store(self, file: IO[bytes]) -> None:
        """Move the file to its place."""
        file.close()
        self._beside.replace(self._place)
        sync_directory(self._place.parent)

    @staticmethod
    def is_there(state: dict[str, Any]) -> bool:
        """Whether a file has the state that :meth:`prepare` has returned."""
        return ends_at(Path(state["path"]), state["size"], state["tail"])
