"""Options: the arguments of a feed's exporter, which determine the whole file."""

from __future__ import annotations

import codecs
from typing import Any

from bloomdupe.feeds.format import plain

__all__ = ["changed_options", "options_of"]


def options_of(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a feed that must not change while a crawl goes on.

    ``options`` are complete: Scrapy has filled in the settings ``FEED_EXPORT_*``. The
    result consists of plain values, as JSON returns them, and is the same in every
    process.
    """
    return {
        "format": options["format"],
        "fields": plain(options["fields"]),
        "postprocessing": [str(p) for p in options.get("postprocessing", ())],
        "encoding": _encoding(options.get("encoding")),
        "indent": options.get("indent"),
        "item_export_kwargs": _stable(options.get("item_export_kwargs") or {}),
    }


def changed_options(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return the names of options that differ from the store's record.

    Options that an earlier version has not stored are not compared.
    """
    return [name for name in before if before[name] != now.get(name)]


def _encoding(name: str | None) -> str:
    """Return the standard name of an encoding; the default is UTF-8, as in Scrapy.

    An unknown encoding is returned unchanged: the exporter will report it.
    """
    try:
        return codecs.lookup(name or "utf-8").name
    except LookupError:
        return str(name)


def _stable(value: object) -> Any:  # noqa: ANN401 - any JSON value
    """Return a value without parts that differ between processes, such as addresses."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {str(key): _stable(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_stable(part) for part in value]
    if isinstance(value, bytes):
        return repr(value)
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"
