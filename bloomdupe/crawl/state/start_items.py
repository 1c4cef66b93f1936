"""StartItems: which items of ``Spider.start()`` are done, in any order."""

from __future__ import annotations

from bloomdupe.crawl.leases.outcomes import Outcome
from bloomdupe.store.participant import Part, Participant

__all__ = ["StartItem", "StartItems"]


class StartItem:
    """An item of ``Spider.start()``: a :class:`bloomdupe.inside_scrapy.Work`."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.outcome = Outcome()

    def answered(self, result: object) -> bool:  # noqa: ARG002 - there is none
        """Nothing was asked of the downloader."""
        return True

    def given(self, result: object) -> None:
        """No callback belongs to it."""

    def takes_item(self) -> bool:
        """It yields nothing."""
        return True

    holds_back = False

    def waits(self) -> None:
        """No callback belongs to it."""

    def cut_short(self) -> None:
        """No callback belongs to it."""

    def gave_up(self, error: BaseException) -> None:
        """No download belongs to it."""

    def raised(self, error: BaseException, response: object) -> None:
        """No callback belongs to it."""

    def broke_off(self, error: BaseException) -> None:
        """See :class:`bloomdupe.inside_scrapy.processing.Work`; never called."""

    def ended(self, *, whole: bool) -> None:
        """Do nothing: its pipelines decide when it is done."""


class StartItems(Participant):
    """Numbers of the items that are done: scraped, or dropped by a pipeline.

    The store keeps them as a list, ``start_items`` in the record ``crawl``. It begins
    with the number of leading items that are all done; then come the numbers (from 0)
    of the later items that are done.
    """

    def __init__(self) -> None:
        self._all_up_to = 0
        self._others: set[int] = set()
        self._begun = 0

    def restore(self, stored: list[int]) -> None:
        """Restore the numbers of the last checkpoint."""
        self._all_up_to, *others = stored or [0]
        self._others = set(others)

    def next(self) -> StartItem | None:
        """Return an object for the next item; None if the item is done already."""
        number = self._begun
        self._begun += 1
        if number < self._all_up_to or number in self._others:
            return None
        return StartItem(number)

    def through(self, item: StartItem) -> None:
        """Record that an item is done."""
        self._others.add(item.number)
        while self._all_up_to in self._others:
            self._others.remove(self._all_up_to)
            self._all_up_to += 1

    def prepare(self) -> Part:
        """Return the numbers for the next checkpoint."""
        done = [self._all_up_to, *sorted(self._others)]
        return Part(entries={"start_items": done})
