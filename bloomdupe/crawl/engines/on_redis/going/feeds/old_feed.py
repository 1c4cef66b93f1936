"""OldFeed: a feed of Scrapy, as lines that are committed before they are written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy.exporters import CsvItemExporter, JsonLinesItemExporter

from bloomdupe.crawl.engines.on_redis.going.feeds.content import Content
from bloomdupe.crawl.engines.on_redis.going.feeds.old_feed_format import (
    OldFormat,
    options_of,
)
from bloomdupe.crawl.engines.on_redis.going.feeds.old_file import OldFeedFile
from bloomdupe.crawl.engines.on_redis.going.feeds.old_uri import (
    changes,
    fits,
    with_parameters,
    with_secret,
    without_secret,
)
from bloomdupe.errors import FeedError
from bloomdupe.inside_scrapy.helpers import PostProcessingManager
from bloomdupe.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrapy.extensions.feedexport import FeedSlot

    from bloomdupe.crawl.engines.on_redis.going.feeds.spool import Items
    from bloomdupe.inside_scrapy.feed_exporter import FeedExporterAccess

BLOCK_BYTES = 64 << 10
"""Bytes of lines that are compressed together. The file is less than one and a half
times as large as a file that is compressed in one piece."""


class OldKnown(NamedTuple):
    """The state of a feed that an earlier run may have begun."""

    name: str
    """Its name in the store."""
    record: dict[str, Any] | None = None
    """None for a new feed."""
    file: OldFeedFile | None = None
    ours: bool = False
    """Whether this crawl has written to its present file."""


@dataclass
class OldFeedBatch:
    """A file of a feed, with Scrapy's slot for it, which holds its place."""

    slot: FeedSlot
    file: OldFeedFile | None = None
    """None as long as it is empty, and when it is complete."""
    ours: bool = False
    """Whether the present content of its place is of this crawl."""

    @property
    def items(self) -> int:
        """Number of committed items."""
        return self.slot.itemcount


class OldFeed:
    """Encodes items as lines when they are scraped; writes them when they are settled.

    The store keeps, for each feed:

    ``uri``     place of the present file
    ``batch``   number of the batch, from 1
    ``items``   items in it
    ``file``    its number among the files that the store knows; null if it is not
                there yet, or complete, so that it is the user's
    ``header``  line at the head of each file (CSV), as Latin-1 text
    ``fields``  its columns
    ``options`` see :func:`options_of`
    ``done``    true if it was complete, and the present run does not have it

    ``known`` is the state that the store has from an earlier run. Raises
    :class:`KeyError` if the spider lacks a parameter of the URI.
    """

    def __init__(
        self,
        number: int,
        template: str,
        options: dict[str, Any],
        access: FeedExporterAccess,
        known: OldKnown,
    ) -> None:
        self.number = number
        self.name = known.name
        record = known.record
        self.options = options_of(options)
        self.most = int(options["batch_item_count"] or 0)
        """Items in a batch; 0: any number."""
        self._new_slot = partial(access.new_slot, template, options)
        self._new_exporter = access.new_exporter
        self._here = access.here
        if record is None:
            slot = self._new_slot(1)
        else:
            uri = full_uri(access, template, options, record["uri"])
            slot = self._new_slot(record["batch"], uri)
            slot.itemcount = record["items"]
        self.batch = OldFeedBatch(slot, known.file, ours=known.ours)
        self.earlier: list[OldFeedBatch] = []
        """Complete batches that the store must know or that are not reported yet."""
        self.accepts: Callable[[object], bool] = slot.filter.accepts
        self.format = self._new_format(slot)
        if record is not None:
            self.format.resume(record["header"], record["fields"])
        self.encode = self.format.encode
        self._overwrite = bool(options.get("overwrite", False))
        self._closing: bytes | None = None
        self.settled = self.record(slot.batch_id, slot.uri, slot.itemcount)
        """The record at the last moment when everything in the files was settled."""
        self.settled_file = known.file
        """The present file of that moment."""

    def record(self, batch: int, uri: str, items: int) -> dict[str, Any]:
        """Return the record for the store, without the number of the file."""
        return {
            "uri": without_secret(uri),
            "batch": batch,
            "items": items,
            "file": None,
            "header": self.format.header,
            "fields": self.format.fields,
            "options": self.options,
        }

    def after(self, batch: OldFeedBatch) -> OldFeedBatch:
        """Return the batch after this batch."""
        return OldFeedBatch(self._new_slot(batch.slot.batch_id + 1))

    @property
    def files(self) -> list[OldFeedFile]:
        """Files that are open or to be written."""
        batches = [*self.earlier, self.batch]
        return [batch.file for batch in batches if batch.file is not None]

    def append(self, *, whole: bool) -> list[FeedSlot]:
        """Write the committed pieces; return the slots of complete batches.

        The slots are returned only when everything in them is settled (``whole``).
        """
        full = bool(self.most) and self.batch.items >= self.most
        complete = [*self.earlier, self.batch] if full else self.earlier
        for batch in complete:
            if batch.file is not None:
                batch.file.append()
                batch.file.sync()
                batch.file.close()
        if not full and self.batch.file is not None:
            self.batch.file.append()
        if not whole:
            return []
        slots = [batch.slot for batch in complete if batch.file is not None]
        for batch in complete:
            batch.file = None
        self.earlier = []
        return slots

    def close(self) -> None:
        """Release the files; nothing is written."""
        for file in self.files:
            file.close()
        self.format.close()

    # Content of the files

    def _new_format(self, slot: FeedSlot) -> OldFormat | Items:
        build = partial(self._new_exporter, slot)
        return OldFormat(build, slot.feed_options["fields"])

    def new_file(self, batch: OldFeedBatch) -> OldFeedFile:
        """Return the file of a batch that has no file yet; nothing is changed."""
        storage: Any = batch.slot.storage
        overwrite = self._overwrite and not batch.ours
        path = str(storage.path)
        return OldFeedFile(Content.begin(path, self._here / path, overwrite=overwrite))

    def first_piece(
        self, content: Content, lines: list[bytes], *, hold: bool = False
    ) -> Content:
        """Return the content of a file that begins with these lines.

        ``hold`` allows the lines to be held, and compressed together with later lines.
        """
        data = self._head_for(content) + self.format.separator.join(lines)
        return self._grown(content, data, hold=hold)

    def next_piece(
        self, batch: OldFeedBatch, lines: list[bytes], *, hold: bool
    ) -> Content | None:
        """Return the content of a batch's file with more lines; None: no change."""
        assert batch.file is not None  # noqa: S101 - or there is a first piece
        content = batch.file.content
        form = self.format
        data = form.separator.join(lines)
        if lines and batch.items:
            data = form.separator + data
        elif not lines and (
            hold
            if content.held
            else (not form.closing or content.end or content.closing)
        ):
            return None
        return self._grown(content, data, hold=hold)

    def _grown(self, content: Content, data: bytes, *, hold: bool) -> Content:
        data = content.held + data
        if hold and self._compresses and len(data) < BLOCK_BYTES:
            return content.with_held(data)
        if self._closing is None:
            self._closing = self._packed(self.format.closing)
        return content.with_more(self._packed(data), self._closing)

    def _head_for(self, content: Content, /) -> bytes:
        """Return the text before the first item, given the present content."""
        head = self.format.head
        slot = self.batch.slot
        kind = slot.exporters[slot.format]
        if (
            not content.base
            or self._compresses
            or not issubclass(kind, (CsvItemExporter, JsonLinesItemExporter))
        ):
            return head
        if content.begins_with(head):
            head = b""  # the columns are the same
        return head if content.tail.endswith(b"\n") else b"\n" + head

    @property
    def _compresses(self) -> bool:
        return bool(self.options["postprocessing"])

    def _packed(self, data: bytes) -> bytes:
        options = self.batch.slot.feed_options
        if not self._compresses or not data:
            return data
        # A whole stream for each piece; the streams together are a valid file.
        target = BytesIO()
        manager = PostProcessingManager(options["postprocessing"], target, options)
        manager.write(data)
        manager.close()
        return target.getvalue()


def encode(
    item: object, feeds: Sequence[OldFeed], lines: list[tuple[int, bytes]]
) -> None:
    """Add the lines of an item, each with the number of its feed.

    If a filter or an exporter fails, the other feeds get the item all the same. Raises
    the exception then.
    """
    for index, feed in enumerate(feeds):
        try:
            if feed.accepts(item):
                lines.append((feed.number, feed.encode(item)))
        except Exception:  # of any filter or exporter in the settings
            encode(item, feeds[index + 1 :], lines)
            raise


def name_of(access: FeedExporterAccess, template: str, options: dict[str, Any]) -> str:
    """Return the name of a feed: its URI without the parts that change in each run.

    So a feed for another value of a spider's argument is another feed.
    """
    name = without_secret(template)
    try:
        return with_parameters(name, access.uri_params(options, 1))
    except KeyError:
        return name


def template_of(
    access: FeedExporterAccess, template: str, options: dict[str, Any]
) -> str:
    """Return a template that each URI of a feed fits, without name and password.

    A function of the project's own may give any parameter another value in each run or
    batch.
    """
    if options["uri_params"]:
        return without_secret(template)
    return name_of(access, template, options)


def full_uri(
    access: FeedExporterAccess, template: str, options: dict[str, Any], uri: str
) -> str:
    """Return the URI of a feed's batch, whose stored URI is ``uri``.

    It is that of the settings. Only what changes with time and batch comes from the
    store. Raises :class:`~bloomdupe.errors.FeedError` if the rest differs.
    """
    own = access.new_slot(template, options, 1).uri
    if not changes(template) and not options["uri_params"]:
        return own
    if not fits(uri, template_of(access, template, options)):
        raise FeedError(
            f"the store names {printable(uri)} as a place of the feed"
            f" {without_secret(template)}, which is never there"
        )
    return with_secret(uri, own)
