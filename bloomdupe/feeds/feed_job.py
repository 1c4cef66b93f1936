"""Contract: the types shared by a crawl and its feeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class FeedJob(NamedTuple):
    """The functions and paths of a crawl that its feeds use."""

    put: Callable[[Any, list[tuple[int, bytes]]], None]
    """Adds the lines of an item to the outcome of the request of a response, as
    ``(number of the feed, line)``; called once for each item.
    """
    fail: Callable[[Exception], None]
    """Stops the crawl, for an item that cannot be kept."""
    store: Path
    """The directory of the store; the directory of the spool is beside it."""
