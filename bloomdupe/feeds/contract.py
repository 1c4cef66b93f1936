"""Contract: the types shared by a crawl and its feeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bloomdupe.feeds.delivery import Delivery
    from bloomdupe.feeds.draft import Draft

__all__ = ["Change", "FeedJob", "Put"]


class Put(Protocol):
    """Adds the lines of an item to the outcome of the request of a response."""

    def __call__(self, response: Any, lines: list[tuple[int, bytes]], /) -> None:  # noqa: ANN401
        """Add lines as ``(number of the feed, line)``; called once for each item."""


class FeedJob(NamedTuple):
    """The functions and paths of a crawl that its feeds use."""

    put: Put
    fail: Callable[[Exception], None]
    """Stops the crawl, for an item that cannot be kept."""
    dump: Callable[[object], bytes]
    """Returns an item as bytes; ``load`` returns it again."""
    load: Callable[[bytes], object]
    store: Path
    """The directory of the store; the directory of the spool is beside it."""


class Change(NamedTuple):
    """A commit of the feeds."""

    record: dict[str, Any]
    """``feeds`` (see :class:`bloomdupe.feeds.feed.Feed`) by URI as it was set,
    ``files`` (see :class:`bloomdupe.feeds.content.Content`), ``deliveries`` (see
    :class:`bloomdupe.feeds.delivery.Delivery`) and ``feeds_finished``. The ``feeds``
    are those of the last moment when everything in them was settled. If that is not
    now, each of the files has a ``mark``, to which it is cut back if the crawl dies."""
    blobs: dict[str, bytes]
    """The pieces: ``feed0`` is the piece of the first file."""
    taken: int
    """Number of lines in it."""
    whole: bool
    """Whether the commit includes all settled lines."""
    take_note: Callable[[Change], None]
    drafts: list[Draft]
    changed: set[str]
    new: list[Delivery]
    gone: set[str]

    def done(self) -> None:
        """Mark the change as committed; call it once."""
        self.take_note(self)
