"""CutShort: requests with a callback that ``CloseSpider`` has ended, and their items.

Such a callback has not yielded everything, so its request stays pending for the next
run. The items that it has yielded still count: they are in the output. When the same
answer comes again, the callback yields them again, and that many of its first items are
left out. A different answer (a page instead of an error, or of a captcha) yields
different items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.crawl.leases.outcomes import ANY
from bloomdupe.store.participant import Part, Participant

if TYPE_CHECKING:
    from bloomdupe.crawl.leases.lease import Lease
    from bloomdupe.crawl.leases.outcomes import Answers

__all__ = ["CutShort"]

MOST = 16
"""Number of answers that are remembered for a request: the newest."""


class CutShort(Participant):
    """Numbers of items by request and by answer.

    The store keeps them as ``cut_short`` in the record ``crawl``, by the key of the
    request in hexadecimal, and by the answer. Earlier versions have stored a number in
    the place of the answers.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Answers] = {}
        self._changed = False

    def restore(self, stored: dict[str, Answers | int]) -> None:
        """Restore the numbers of the last checkpoint."""
        self.answers = {
            key: {ANY: found} if isinstance(found, int) else dict(found)
            for key, found in stored.items()
        }

    def answers_of(self, lease: Lease) -> Answers:
        """Return how many items of each answer to a request are in the output."""
        return self.answers.get(lease.name.hex(), {})

    def note(self, lease: Lease) -> None:
        """Remember how many items a request has yielded before it was cut short."""
        answers = dict(self.answers_of(lease))
        answers.pop(ANY, None)
        answers.pop(lease.answer, None)
        answers[lease.answer] = max(lease.items, lease.whole_before)
        newest = list(answers.items())[-MOST:]
        self.answers[lease.name.hex()] = dict(newest)
        self._changed = True

    def forget(self, name: bytes, passed_on: Lease | None = None) -> None:
        """Forget a settled request.

        If it has ``passed_on`` its name, its heir leaves out the items that are left.
        """
        if self.answers.pop(name.hex(), None) is not None:
            self._changed = True
            if passed_on is not None and (left := passed_on.items_left):
                self.answers[name.hex()] = left

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return self._changed

    def prepare(self) -> Part:
        """Return the part of the next checkpoint."""
        answers = dict(self.answers)

        def done() -> None:
            self._changed = self.answers != answers

        return Part(entries={"cut_short": answers} if answers else {}, done=done)
