"""Options: what a feed's exporter is made with, which shapes all of its file."""

from __future__ import annotations

import codecs
from typing import Any

from bloomdupe.feeds.format import plain

__all__ = ["changed_options", "options_of"]


def options_of(options: dict[str, Any]) -> dict[str, Any]:
    """Return those options of a feed that must not change while a crawl goes on.

    ``options`` are complete: Scrapy has filled in the settings ``FEED_EXPORT_*``. The
    result is plain, as JSON gives it back, and the same in every process.
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
    """Return the names of options that are not as a record of the store has them.

    An earlier version has stored fewer of them; of the others nothing is known.
    """
    return [name for name in before if before[name] != now.get(name)]


def _encoding(name: str | None) -> str:
    """Return the one name of an encoding; without any, Scrapy's exporters write UTF-8.

    What is no encoding is left to the exporter to complain of.
    """
    try:
        return codecs.lookup(name or "utf-8").name
    except LookupError:
        return str(name)


def _stable(value: object) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """Return a value without what differs between processes, such as addresses."""
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
