"""ItemSource: contract of a source of items that ``collect`` brings into feeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


class ItemEntry(NamedTuple):
    """Items that were stored in one step."""

    position: Any
    """The position behind it, as JSON."""
    items: list[bytes]
    """As :meth:`bloomdupe.feeds.journal.Journal.packed` returns them, with the numbers
    of their feeds in the identity of the crawl."""
    shown: str
    """For messages."""


class ItemSource(Protocol):
    """The entries of a crawl in their order, of which those collected can be deleted.

    Every method may be called again after a
    :class:`~bloomdupe.errors.StoreUnreachableError`.
    """

    shown: str
    """The crawl, for messages."""
    mark: str
    """Identifies the crawl; another crawl of the same name has another mark."""
    identity: dict[str, Any]
    """``feeds`` are the names of the feeds, ``feed_options`` their options."""

    def start(self, *, rest: bool) -> Any:  # noqa: ANN401 - JSON
        """Return the position at which a new collection begins.

        With ``rest``, it is behind the entries that were deleted.
        """

    def has_ended(self) -> bool:
        """Whether the crawl has ended: what is read from now on is all there is."""

    def check_still_there(self) -> None:
        """Raise :class:`~bloomdupe.errors.StoreError` if it is another crawl by now."""

    def entries(self, after: Any) -> Iterator[ItemEntry]:  # noqa: ANN401 - JSON
        """Yield the entries after a position.

        Raises :class:`~bloomdupe.errors.StoreError` if some of them were deleted, or if
        the entry at the position is not there any more: Redis has gone back then, and
        its items would come twice.
        """

    def forget(self, position: Any) -> int:  # noqa: ANN401 - JSON
        """Delete the entries before a position; return how many entries went.

        The entry at the position stays, so that it can be looked for.
        """

    def close(self) -> None:
        """Release the connection."""
