"""Feeds: what the job keeps of each; those that wait for the end of the crawl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.feeds.feed_format import without_secret

if TYPE_CHECKING:
    from scrapy.extensions.feedexport import FeedSlot


class Feed:
    """A feed of a job; its ``record`` is what the store keeps of it.

    ``uri``     its place
    ``number``  by which the journals name it
    ``items``   items in it
    ``size``    bytes of its file; null if there is none yet
    ``options`` those that must not change, see
                :func:`~bloomdupe.feeds.feed_format.options_of`
    ``done``    true if it was complete, and the present run does not have it

    The order in a checkpoint is: :meth:`begin`, :meth:`add`, :meth:`seal`, (commit),
    :meth:`done`, :meth:`append`. Nothing that counts is changed before :meth:`done`.
    """

    def __init__(self, name: str, slot: FeedSlot, number: int) -> None:
        self.name = name
        """Its name in the store."""
        self.slot = slot
        """Scrapy's slot of its first file; it counts the committed items."""
        self.number = number
        self.record: dict[str, Any] = {
            "uri": without_secret(slot.uri),
            "number": number,
            "items": 0,
            "size": None,
            "options": {},
        }
        self._next = self.record

    def begin(self) -> None:
        """Begin with the next commit; what was added for another is taken back."""
        self._next = {**self.record}

    def add(self, data: bytes) -> None:
        """Add an acknowledged item."""
        self._next["items"] += 1

    def seal(self, *, finishing: bool) -> dict[str, Any]:
        """Return the record for the store; ``finishing``: the crawl ends with it."""
        del finishing
        return self._next

    def done(self) -> None:
        """Note that all this is committed."""
        self.go_on(self._next)

    def append(self) -> None:
        """Write the items of the last commit, if this is their time."""

    def close(self) -> None:
        """Release the file; nothing is written."""

    def go_on(self, record: dict[str, Any]) -> None:
        """Go on with a record, as it was committed."""
        self.record = record
        self.slot.itemcount = record["items"]

    def restore(self, old: dict[str, Any], *, bound: bool, resumed: bool) -> None:
        """Go on from the record of the last run.

        ``bound`` says that it has lacked items; ``resumed`` is as in
        :class:`~bloomdupe.feeds.stored_feeds.StoredFeeds`.
        """
        if resumed or bound:
            self.go_on(old)


class WaitingFeed(Feed):
    """A feed that is written from the journal when the crawl has finished.

    Its record has ``begin``, too: the position in the journal at which the present
    round begins.
    """

    def __init__(self, name: str, slot: FeedSlot, number: int) -> None:
        super().__init__(name, slot, number)
        self.record["begin"] = 0


def waits(record: dict[str, Any]) -> bool:
    """Whether a record is that of a feed that waits for the end of the crawl."""
    return "begin" in record
