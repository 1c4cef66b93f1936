"""CutShort: requests whose callbacks have raised CloseSpider, and how far they were.

What such a callback has not yielded is still owed, so its request stays pending for the
next run. What it has yielded counts all the same: its items are in the output. When the
callback runs again, it yields them again; so many of its first items are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.crawl.part import Part

if TYPE_CHECKING:
    from bloomdupe.crawl.leases import Lease

__all__ = ["CutShort"]


class CutShort:
    """Numbers of items by request.

    The store keeps them as ``cut_short`` in the record ``crawl``, by the key of the
    request in hexadecimal.
    """

    def __init__(self) -> None:
        self._items: dict[str, int] = {}
        self._changed = False

    def take_up(self, stored: dict[str, int]) -> None:
        """Go on with what the last checkpoint holds."""
        self._items = dict(stored)

    def items_of(self, lease: Lease) -> int:
        """Return how many of the first items of a request are in the output."""
        return self._items.get(lease.key.hex(), 0) if self._items else 0

    def note(self, lease: Lease, items: int) -> None:
        """Take note that a request was cut short after so many items."""
        self._items[lease.key.hex()] = items
        self._changed = True

    def forget(self, lease: Lease) -> None:
        """Take note that a request is settled; a heir leaves out what it has not."""
        if not self._items:
            return
        before = self._items.pop(lease.key.hex(), None)
        if before is not None:
            self._changed = True
            if lease.bequeaths and before > lease.items:
                self._items[lease.key.hex()] = before - lease.items

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return self._changed

    def prepare(self) -> Part:
        """Work out what the next checkpoint writes."""
        items = dict(self._items)

        def done() -> None:
            self._changed = self._items != items

        return Part({"cut_short": items} if items else {}, done=done)
