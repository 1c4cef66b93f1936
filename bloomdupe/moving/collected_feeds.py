"""CollectedFeeds: the feeds of a shared crawl, written by a process of their own."""

from __future__ import annotations

import shlex
import struct
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import NotConfigured
from scrapy.exporters import JsonLinesItemExporter
from scrapy.extensions.feedexport import FileFeedStorage
from scrapy.utils.project import get_project_settings

from bloomdupe.crawl.engines.on_redis.going.feeds.old_exporter import OldFeedExporter
from bloomdupe.crawl.engines.on_redis.going.feeds.old_feed_job import OldFeedJob
from bloomdupe.crawl.engines.on_redis.going.feeds.old_stored_feeds import OldStoredFeeds
from bloomdupe.crawl.engines.on_redis.going.feeds.old_uri import (
    fits,
    is_local,
    parts_with_changes,
    with_secret,
    without_secret,
)
from bloomdupe.crawl.engines.on_redis.going.feeds.shared_feed import (
    ITEMS,
    given_options,
)
from bloomdupe.crawl.engines.on_redis.going.feeds.spool import Items
from bloomdupe.crawl.engines.on_redis.going.feeds.spooled_feed import SpooledFeed
from bloomdupe.errors import (
    FeedChangedError,
    FeedError,
    StoreMismatchError,
)
from bloomdupe.inside_scrapy.helpers import (
    feed_complete_default_values_from_settings,
)
from bloomdupe.inside_scrapy.private_names import check_names
from bloomdupe.jobs.project import Project
from bloomdupe.moving.collection import RECORD
from bloomdupe.printable import logger_of
from bloomdupe.requests.serializer import Serializer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.crawler import Crawler
    from scrapy.extensions.feedexport import FeedSlot
    from scrapy.settings import BaseSettings, Settings
    from typing_extensions import Self

    from bloomdupe.crawl.engines.on_redis.going.feeds.old_feed import OldFeed
    from bloomdupe.moving.collection import Collection

logger = logger_of(__name__)


class CollectedFeeds(OldFeedExporter):
    """Writes the feeds of a shared crawl as a crawl with a ``JOBDIR`` writes its own.

    Files on this machine are in ``directory``, at the last part of their URI, or at
    its parts from the first on that changes from run to run or batch to batch.
    """

    def __init__(self, crawler: Crawler, directory: Path) -> None:
        super().__init__(crawler)
        self._directory = directory
        self.failed = False
        """Whether a delivery has failed."""
        self._gives_items: list[bool] = []

    @classmethod
    def open(
        cls,
        settings: Settings | None,
        identity: dict[str, Any],
        collection: Collection,
        shown: str,
        named: Sequence[str] = (),
    ) -> Self:
        """Open the feeds that the identity of a crawl names.

        Anyone who can write to this Redis can name any feed there. So the settings must
        have a feed for another storage than files, or the caller has ``named`` its URI.

        Raises :class:`~bloomdupe.errors.StoreMismatchError` for feeds that cannot be
        collected, and :class:`~bloomdupe.errors.FeedError` for those that cannot be
        written.
        """
        check_names(feeds=True)
        settings = get_project_settings() if settings is None else settings.copy()
        # Only the settings of the spider are needed, and most feeds do not need them.
        settings.set("SPIDER_LOADER_WARN_ONLY", True, "cmdline")
        project = Project(settings, str(identity.get("spider") or "unknown"))
        names: list[str] = identity["feeds"]
        recorded = identity.get("feed_options", [{}] * len(names))
        crawler = project.crawler_for(
            _feeds_for(names, recorded, project.settings, named)
        )
        try:
            feeds = cls(crawler, collection.directory)
        except NotConfigured as error:
            raise FeedError(
                f"the feeds of {shown} cannot be written here, see above: run this in"
                " the folder of the project, and install what its workers have"
                if names
                else f"{shown} has no feeds, so there is nothing to collect"
            ) from error
        feeds._gives_items = [bool(one.get(ITEMS)) for one in recorded]
        assert crawler.spider is not None  # noqa: S101 - the project has made it
        feeds._begin(collection, Serializer(crawler.spider))
        return feeds

    def _begin(self, collection: Collection, serializer: Serializer) -> None:
        self._load = serializer.load_value
        self._check_places(anew=collection.is_new)
        left = OldStoredFeeds(
            collection.entries,
            collection.blobs,
            collection.store,
            self.here,
            resumed=not collection.is_new,
            anew="collect into another directory",
        )
        job = OldFeedJob(
            _not_here, _not_here, serializer.dump_item, self._load, collection.store
        )
        self.restore(job, left)
        self._line_ends = [_line_end_of(feed.batch.slot) for feed in self.durable]
        for number, feed in enumerate(self.durable):
            if isinstance(feed.format, Items) and not self._gives_items[number]:
                raise FeedError(
                    f"the feed {feed.name} has another exporter here than on the"
                    " workers: set FEED_EXPORTERS as it is there"
                )

    def _check_places(self, *, anew: bool) -> None:
        """Refuse feeds without a place of their own, or with a place that is taken."""
        places: dict[Path, str] = {}
        for template, options in self.feeds.items():
            storage: Any = self.new_slot(template, options, 1).storage
            if type(storage) is not FileFeedStorage:
                continue
            place, name = Path(storage.path), without_secret(template)
            if place in places:
                raise StoreMismatchError(
                    f"the feeds {places[place]!r} and {name!r} would have the same file"
                    f" {place}; give them names of their own in FEEDS, in a new crawl"
                )
            places[place] = name
            if anew and not options.get("overwrite") and _has_content(place):
                raise FeedChangedError(
                    f"{place} is there, and was not collected by bloomdupe: there is no"
                    f" {RECORD} in {self._directory}. Move it away, or collect into"
                    " another directory"
                )

    def new_slot(
        self,
        template: str,
        options: dict[str, Any],
        batch_id: int,
        uri: str | None = None,
    ) -> FeedSlot:
        """Return the slot of a batch; a file on this machine is in the directory."""
        slot = super().new_slot(template, options, batch_id, uri)
        storage: Any = slot.storage
        if type(storage) is FileFeedStorage:
            parts = storage.path.split("/")[-parts_with_changes(template) :]
            if set(parts) & {"", ".", ".."} or "\0" in storage.path:
                raise StoreMismatchError(
                    f"the feed {template!r} has no last part that could name a file"
                )
            if parts[0].startswith(RECORD):
                raise StoreMismatchError(
                    f"the feed {template!r} would have the file {parts[0]}, which is"
                    " bloomdupe's"
                )
            storage.path = str(self._directory.joinpath(*parts))
        return slot

    def place_template(self, template: str, options: dict[str, Any]) -> str | None:
        """Return a template that each path of a feed in the directory fits."""
        place = super().place_template(template, options)
        if place is None:
            return None
        parts = place.split("/")[-parts_with_changes(template) :]
        return str(self.here / self._directory.joinpath(*parts))

    def place_of(self, feed: OldFeed) -> tuple[str, str]:
        """Return name and place of a feed's present file.

        The name is its path in the directory, or its URI; the place is its path, or its
        URI, too.
        """
        storage: Any = feed.batch.slot.storage
        if type(storage) is not FileFeedStorage:
            uri = without_secret(feed.batch.slot.uri)
            return uri, uri
        name = Path(storage.path).relative_to(self._directory)
        return str(name), storage.path

    # Lines

    def line_of(self, number: int, data: bytes) -> bytes | None:
        """Return the line for a feed that a worker has given, as a line or an item.

        None: its exporter fails for the item, which is logged. Raises
        :class:`ValueError` if the number or the data are of no feed, and
        :class:`~bloomdupe.errors.UnserializableError` if the item cannot be read here.
        """
        if number >= len(self.durable):
            raise ValueError(number)
        feed = self.durable[number]
        if not self._gives_items[number]:
            if not data.endswith(self._line_ends[number]):
                raise ValueError(data)
            return data
        try:
            (item,) = Items.read(BytesIO(data), len(data), self._load)
        except struct.error as error:
            raise ValueError(data) from error
        if isinstance(feed.format, Items):
            return data
        try:
            return feed.encode(item)
        except Exception:  # of any exporter
            logger.exception(
                "The exporter failed for an item; the feed %(uri)s lacks it",
                {"uri": feed.name},
            )
            return None

    # Deliveries

    @property
    def delivers(self) -> bool:
        """Whether some feeds are for storages that get complete files."""
        return any(isinstance(feed, SpooledFeed) for feed in self.durable)

    def begin(self) -> None:
        """Begin with the deliveries; those of earlier calls come first."""
        assert self.crawler.spider is not None  # noqa: S101 - it has a name
        self.open_spider(self.crawler.spider)

    def tell(self, slot: FeedSlot, stored: bool) -> None:  # noqa: ARG002
        """Remember a delivery that has failed; no extension listens here."""
        self.failed = self.failed or not stored

    def close(self) -> None:
        """Release the files; nothing is written."""
        for feed in self.durable:
            feed.close()


def _feeds_for(
    names: list[str],
    recorded: list[dict[str, Any]],
    settings: BaseSettings,
    named: Sequence[str],
) -> dict[str, dict[str, Any]]:
    """Return the ``FEEDS`` of a crawl: those of the settings, or as they were recorded.

    The name of a feed is its URI without name and password, and with all parameters
    that do not change. Raises :class:`~bloomdupe.errors.FeedError` for a feed of
    another storage that is neither in the settings nor ``named``.
    """
    ours = {str(uri): options for uri, options in settings.getdict("FEEDS").items()}
    feeds = {}
    for name, options in zip(names, recorded, strict=True):
        fitting = [uri for uri in ours if fits(name, without_secret(uri))]
        template = name if name in ours else next(iter(fitting), None)
        given = None
        if template is not None:
            given = feed_complete_default_values_from_settings(
                ours[template], settings, template
            )
        else:
            template = next((uri for uri in named if without_secret(uri) == name), None)
            if template is None and not is_local(name):
                raise FeedError(
                    f"the feed {name} is no file on this machine, and only Redis names"
                    " it: if you want it written, run this in the folder of the"
                    " project, with the feed in FEEDS, or add"
                    f" --feed {shlex.quote(name)}"
                )
        uri = name if template is None else with_secret(name, template)
        feeds[uri] = given_options(name, options, given)
    return feeds


def _line_end_of(slot: FeedSlot) -> bytes:
    """Return the end of each line that a worker gives."""
    lines = issubclass(slot.exporters[slot.format], JsonLinesItemExporter)
    return b"\n" if lines else b""


def _has_content(place: Path) -> bool:
    return place.exists() and place.stat().st_size > 0


def _not_here(*_: object) -> None:
    raise NotImplementedError("no item is scraped here")
