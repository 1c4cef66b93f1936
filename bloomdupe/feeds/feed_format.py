"""The kinds of feeds, the options that give them their shape, and their URIs."""

from __future__ import annotations

import json
import os
import re
import stat
from typing import TYPE_CHECKING, Any

from scrapy.extensions.feedexport import (
    FileFeedStorage,
    FTPFeedStorage,
    GCSFeedStorage,
    S3FeedStorage,
    StdoutFeedStorage,
)
from scrapy.utils.python import global_object_name

from bloomdupe.errors import FeedError
from bloomdupe.store.platform import existing
from bloomdupe.store.system_errors import explained

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from scrapy.extensions.feedexport import FeedSlot


APPENDED = (
    "scrapy.exporters.CsvItemExporter",
    "scrapy.exporters.JsonLinesItemExporter",
)
"""Exporters whose lines can be written one by one."""
SHAPE = ("format", "fields", "encoding", "indent", "item_export_kwargs")
"""The options that must not change while a crawl goes on."""


def options_of(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that give a feed its shape, as the store keeps them.

    ``options`` are complete: Scrapy has filled in the settings ``FEED_EXPORT_*``. The
    result is the same in every process.
    """
    shape = {name: options.get(name) for name in SHAPE}
    if not isinstance(shape["fields"], dict | None):
        shape["fields"] = list(shape["fields"])
    known: dict[str, Any] = json.loads(json.dumps(shape, default=_named))
    return known


def changed_options(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Say which options differ from those of the record; "" if none does."""
    names = [name for name in before if before[name] != now.get(name)]
    was, has = (
        ", ".join(f"{name} = {options.get(name)!r}" for name in names)
        for options in (before, now)
    )
    return f"was begun with {was}, now it has {has}" if names else ""


def _named(value: object) -> str:
    """Return an object as a text without its address, which differs by process."""
    if isinstance(value, bytes):
        return repr(value)
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"


def appended_path(slot: FeedSlot, here: Path) -> Path | None:
    """Return the file to which a feed is written line by line, in several runs.

    These are files on this machine that get JSON lines or CSV from Scrapy's own
    exporters. A subclass may remember items, or write a line of its own at the end. It
    is None for all other feeds, which wait for the end of the crawl.
    """
    options = slot.feed_options
    appended = (
        not options["batch_item_count"]
        and not options.get("postprocessing")
        and global_object_name(slot.exporters[slot.format]) in APPENDED
    )
    return local_path(slot, here) if appended else None


def local_path(slot: FeedSlot, here: Path) -> Path | None:
    """Return the path of a file on this machine; None for all other storages.

    A relative path begins ``here``. Raises :class:`~bloomdupe.errors.StoreError` if the
    path cannot be checked, and :class:`~bloomdupe.errors.FeedError` for a directory.
    """
    storage: Any = slot.storage
    if type(storage) is not FileFeedStorage:
        return None
    place = here / storage.path
    with explained(f"cannot write the feed {place}", place):
        try:
            mode = place.stat().st_mode
        except FileNotFoundError:
            return place
    if stat.S_ISDIR(mode):
        raise FeedError(f"FEEDS: {place} is a directory; name a file")
    return place if stat.S_ISREG(mode) else None


def check_writable(place: Path) -> None:
    """Refuse a file that cannot be written: it is written when the crawl has ended."""
    with explained(f"cannot write the feed {place}", place):
        there = existing(place)
        writable = os.access(there, os.W_OK)
    if not writable:
        raise FeedError(
            f"FEEDS: {place} cannot be written: {there} is not writable; change its"
            " permissions, or name another file"
        )


def replaces(slot: FeedSlot) -> bool:
    """Whether a delivery replaces the delivery before; otherwise it is appended."""
    if isinstance(slot.storage, (S3FeedStorage, GCSFeedStorage)):
        return True  # they have files in one piece only
    if isinstance(slot.storage, StdoutFeedStorage):
        return False
    anew = isinstance(slot.storage, FTPFeedStorage)
    return bool(slot.feed_options.get("overwrite", anew))


PARTS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)([^/?#]*@)?(.*)", re.DOTALL)
PARAMETER = re.compile(r"%\((?P<name>[^)]*)\)[-#0 +]*\d*(?:\.\d+)?[a-zA-Z]")
CHANGING = frozenset({"time", "batch_time", "batch_id"})
"""Parameters for which Scrapy has another value in each run or batch."""


def without_secret(uri: str) -> str:
    """Return a URI without its secret, for a store, a log or an error message."""
    found = PARTS.fullmatch(uri)
    return uri if found is None else found[1] + found[3]


def described(slot: FeedSlot) -> dict[str, Any]:
    """Return what a message says of a file of a feed."""
    uri = without_secret(slot.uri)
    return {"format": slot.format, "count": slot.itemcount, "uri": uri}


def with_parameters(template: str, values: Mapping[str, object]) -> str:
    """Return the template of a URI with all its parameters that do not change.

    The parameters of time and batch stay as they are. Raises :class:`KeyError` if a
    parameter is not among the ``values``.
    """

    def filled(found: re.Match[str]) -> str:
        return found[0] if found["name"] in CHANGING else found[0] % values

    return PARAMETER.sub(filled, template)


def parameters(template: str) -> set[str]:
    """Return the parameters of a template besides those of time and batch."""
    return {found["name"] for found in PARAMETER.finditer(template)} - CHANGING
