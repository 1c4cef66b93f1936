"""The items of the crawl."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Page"]


@dataclass
class Page:
    """A fetched URL: a line of ``items.jsonl``."""

    url: str
    """Where the response came from, after redirects, spelled as it was requested."""
    status: int
    """HTTP status: 404 and the like are pages too; redirects are followed instead."""
    title: str | None
    """Text of ``<title>``, white space collapsed; None for anything but HTML."""
    depth: int
    """Links from the start page, which has depth 0."""
    content_type: str | None
    """The Content-Type header as sent, or None without one."""
    length: int
    """Bytes of the body, after decompression."""
    referrer: str | None
    """URL of the page that linked here; None for a start page."""
    time: str
    """When the response was processed: ISO 8601, UTC, to the millisecond."""
