"""SharedFeed: a feed with items of workers, written by ``collect``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from scrapy.exporters import CsvItemExporter
from scrapy.utils.python import global_object_name

from bloomdupe.crawl.engines.on_redis.going.feeds.old_feed import (
    OldFeed,
    OldKnown,
    name_of,
)
from bloomdupe.crawl.engines.on_redis.going.feeds.old_feed_format import (
    STREAMS,
    can_be_cut,
    changed_options,
    only_compresses,
    options_of,
)
from bloomdupe.crawl.engines.on_redis.going.feeds.spool import Items
from bloomdupe.errors import FeedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.extensions.feedexport import FeedSlot

    from bloomdupe.crawl.engines.on_redis.going.feeds.old_exporter import (
        OldFeedExporter,
    )
    from bloomdupe.crawl.engines.on_redis.going.feeds.old_feed_format import OldFormat

ITEMS = "items"
OBJECTS = "objects"
JSON_LINES: dict[str, Any] = {
    "format": "jsonlines",
    "fields": None,
    "encoding": None,
    "indent": 0,
    "item_export_kwargs": {},
    "postprocessing": [],
    "overwrite": False,
    "store_empty": True,
    "batch_item_count": 0,
}
"""The options of a feed of which nothing was recorded."""


class SharedFeed(OldFeed):
    """Encodes items on a worker; another process puts them in order, and writes them.

    A worker gives each item as its line in the file, if that depends on nothing but the
    item: the exporter writes each item independently, and plugins only compress. In a
    CSV file the first item decides on the columns. For it, and for all other exporters
    and plugins, a worker gives the item itself (:class:`Items`).

    Raises :class:`KeyError` if the spider lacks a parameter of the URI.
    """

    def __init__(
        self,
        number: int,
        template: str,
        options: dict[str, Any],
        access: OldFeedExporter,
        dump: Callable[[object], bytes],
    ) -> None:
        self._dump = dump
        self._given = options
        name = name_of(access, template, options)
        super().__init__(number, template, options, access, OldKnown(name))

    @property
    def shared_options(self) -> dict[str, Any]:
        """Return the options that a process without these settings needs, as JSON.

        Options that are those of ``JSON_LINES`` are left out. Besides, ``items`` says
        that the workers give items, and ``objects`` that the options hold objects, so
        that only the settings have them.
        """
        given, plain = self._given, options_of(self._given)
        found = {
            **plain,
            "encoding": given.get("encoding"),
            "overwrite": bool(given.get("overwrite")),
            "store_empty": bool(given["store_empty"]),
            "batch_item_count": self.most,
            ITEMS: isinstance(self.format, Items),
            OBJECTS: not _is_plain(given, plain),
        }
        left_out = {**JSON_LINES, ITEMS: False, OBJECTS: False}
        return {name: found[name] for name in found if found[name] != left_out[name]}

    def _new_format(self, slot: FeedSlot) -> OldFormat | Items:
        exporter = slot.exporters[slot.format]
        columns = issubclass(exporter, CsvItemExporter)
        if can_be_cut(exporter) and only_compresses(slot) and not columns:
            return super()._new_format(slot)
        return Items(self._dump)


def _is_plain(given: dict[str, Any], plain: dict[str, Any]) -> bool:
    """Whether JSON returns the options as they were given."""
    try:
        known = json.loads(json.dumps(given.get("item_export_kwargs") or {}))
    except (TypeError, ValueError):
        return False
    return bool(
        known == plain["item_export_kwargs"]
        and list(given.get("postprocessing", ())) == plain["postprocessing"]
        and given.keys() <= _PLAIN_OPTIONS
    )


_PLAIN_OPTIONS = {*JSON_LINES, "item_classes", "item_filter", "uri_params"}
"""Options that are recorded, or that only workers need."""


def given_options(
    name: str, recorded: dict[str, Any], given: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the options of a feed for the process that writes it.

    ``recorded`` are those of the workers (:attr:`SharedFeed.shared_options`), ``given``
    those of the settings here, if these have the feed. Raises
    :class:`~bloomdupe.errors.FeedError` if they differ, or if they are needed.
    """
    options = {key: recorded.get(key, value) for key, value in JSON_LINES.items()}
    if given is None:
        # No plugin is imported because Redis names it.
        own = {*options["postprocessing"]} - {*map(global_object_name, STREAMS)}
        if recorded.get(OBJECTS) or own:
            raise FeedError(
                f"the feed {name} has options that only the settings of its project can"
                " hold: run this in the folder of the project, with the feed in FEEDS"
            )
        return {**options, "uri_params": None}
    changed = changed_options(options_of(options), options_of(given))
    if changed:
        was, has = changed
        raise FeedError(
            f"FEEDS: the workers have the feed {name} with {was}, here it has {has}:"
            " set it as it is there"
        )
    # The name of the feed has all parameters of its URI.
    return {**given, "uri_params": None}
