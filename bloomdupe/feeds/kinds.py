"""Kinds of feeds: feeds that are written while the crawl runs, and spooled feeds."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.extensions.feedexport import (
    FileFeedStorage,
    FTPFeedStorage,
    GCSFeedStorage,
    S3FeedStorage,
    StdoutFeedStorage,
)
from scrapy.extensions.postprocessing import Bz2Plugin, GzipPlugin, LZMAPlugin
from scrapy.utils.misc import load_object

from bloomdupe.errors import FeedError
from bloomdupe.feeds.feed_format import can_be_cut

if TYPE_CHECKING:
    from scrapy.extensions.feedexport import FeedSlot

__all__ = ["is_direct", "local_path", "only_compresses", "replaces"]

STREAMS = (GzipPlugin, Bz2Plugin, LZMAPlugin)
"""Compressors whose streams may follow one another in a file."""


def is_direct(slot: FeedSlot) -> bool:
    """Whether a feed can be written piece by piece, in several runs.

    This holds for files on this machine, if their exporter writes each item
    independently and all plugins are compressors whose streams may follow one another.
    """
    return (
        local_path(slot) is not None
        and can_be_cut(slot.exporters[slot.format])
        and not slot.feed_options.get("lzma_format")
        and only_compresses(slot)
    )


def only_compresses(slot: FeedSlot) -> bool:
    """Whether all plugins are compressors that accept their input in any pieces.

    Other plugins may process each line that an exporter writes.
    """
    return all(
        load_object(plugin) in STREAMS
        for plugin in slot.feed_options.get("postprocessing", ())
    )


def local_path(slot: FeedSlot) -> Path | None:
    """Return the path of a file on this machine; None for all other storages.

    Raises :class:`~bloomdupe.errors.FeedError` if the path cannot be checked.
    """
    storage: Any = slot.storage
    if type(storage) is not FileFeedStorage:
        return None
    place = Path(storage.path)
    try:
        return place if stat.S_ISREG(place.stat().st_mode) else None
    except FileNotFoundError:
        return place
    except OSError as error:
        raise FeedError(f"cannot write the feed {place}: {error}") from error


def replaces(slot: FeedSlot) -> bool:
    """Whether a delivery replaces the delivery before; otherwise it is appended."""
    overwrite = slot.feed_options.get("overwrite")
    if isinstance(slot.storage, (S3FeedStorage, GCSFeedStorage)):
        return True  # they have files in one piece only
    if isinstance(slot.storage, StdoutFeedStorage):
        return False
    if isinstance(slot.storage, FTPFeedStorage):
        return overwrite is not False
    return bool(overwrite)
