"""CountedItems: items of ``Spider.start()`` that an earlier version has counted."""

from __future__ import annotations

from bloomdupe.store.participant import Part, Participant

__all__ = ["CountedItems"]


class CountedItems(Participant):
    """Numbers of the items that are done, in a job that an earlier version began.

    The store keeps them as a list, ``start_items`` in the record ``crawl``. It begins
    with the number of leading items that are all done; then come the numbers (from 0)
    of the later items that are done. No number is added: items have names now.
    """

    def __init__(self) -> None:
        self._stored: list[int] = []

    def restore(self, stored: list[int]) -> None:
        """Restore the numbers of the last checkpoint."""
        self._stored = stored

    def __contains__(self, number: int) -> bool:
        """Whether an item was counted."""
        stored = self._stored
        return bool(stored) and (number < stored[0] or number in stored[1:])

    def prepare(self) -> Part:
        """Return the numbers for the next checkpoint."""
        stored = self._stored
        return Part(entries={"start_items": stored} if any(stored) else {})
