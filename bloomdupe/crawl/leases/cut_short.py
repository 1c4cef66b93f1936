"""CutShort: requests with a callback that ``CloseSpider`` has ended, and their items.

Such a callback has not yielded everything, so its request stays pending for the next
run. The items that it has yielded still count: they are in the output. When the same
answer comes again, the callback yields them again, and that many of its first items are
left out. A different answer (a page instead of an error, or of a captcha) yields
different items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from mmh3 import mmh3_x64_128_digest
from scrapy.http import Response
from twisted.python.failure import Failure

from bloomdupe.store.participant import Part, Participant

if TYPE_CHECKING:
    from bloomdupe.crawl.leases.leases import Lease

__all__ = ["Answers", "CutShort", "answer_of", "items_of", "left_of"]

Answers: TypeAlias = dict[str, int]
"""Items by the answer that has brought them; see :func:`answer_of`."""
ANY = ""
"""Stands for all answers: an earlier version did not tell them apart."""
MOST = 16
"""Number of answers that are remembered for a request: the newest."""


class CutShort(Participant):
    """Numbers of items by request and by answer.

    The store keeps them as ``cut_short`` in the record ``crawl``, by the key of the
    request in hexadecimal, and by the answer. Earlier versions have stored a number in
    the place of the answers.
    """

    def __init__(self) -> None:
        self._answers: dict[str, Answers] = {}
        self._changed = False

    def take_up(self, stored: dict[str, Answers | int]) -> None:
        """Restore the numbers of the last checkpoint."""
        self._answers = {
            key: {ANY: found} if isinstance(found, int) else dict(found)
            for key, found in stored.items()
        }

    def answers_of(self, lease: Lease) -> Answers:
        """Return how many items of each answer to a request are in the output."""
        return self._answers.get(lease.key.hex(), {}) if self._answers else {}

    def note(self, lease: Lease) -> None:
        """Remember how many items a request has yielded before it was cut short."""
        answers = dict(self.answers_of(lease))
        answers.pop(ANY, None)
        answers.pop(lease.answer, None)
        answers[lease.answer] = max(lease.items, lease.whole_before)
        newest = list(answers.items())[-MOST:]
        self._answers[lease.key.hex()] = dict(newest)
        self._changed = True

    def forget(self, lease: Lease) -> None:
        """Forget a settled request; its heir leaves out the items that are left."""
        if not self._answers:
            return
        if self._answers.pop(lease.key.hex(), None) is not None:
            self._changed = True
            left = left_of(lease)
            if lease.bequeaths and left:
                self._answers[lease.key.hex()] = left

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return self._changed

    def prepare(self) -> Part:
        """Return the part of the next checkpoint."""
        answers = dict(self._answers)

        def done() -> None:
            self._changed = self._answers != answers

        return Part(entries={"cut_short": answers} if answers else {}, done=done)


def answer_of(given: object) -> str:
    """Return a digest that tells answers apart, given the argument of the callback.

    In hexadecimal: of status and body, and of the exception for an errback.
    """
    kind, response = "callback", given
    if isinstance(given, Failure):
        error = given.value
        kind = f"errback {type(error).__module__}.{type(error).__qualname__}"
        response = getattr(error, "response", None)
    data = kind.encode()
    if isinstance(response, Response):
        data += b" %d " % response.status + mmh3_x64_128_digest(response.body)
    return mmh3_x64_128_digest(data).hex()


def items_of(answers: Answers, answer: str) -> int:
    """Return how many first items of an answer are in the output."""
    return answers.get(answer, answers.get(ANY, 0))


def left_of(lease: Lease) -> Answers:
    """Return the items that a request has not yielded again yet, by answer."""
    left = dict(lease.answers_before)
    own = lease.answer if lease.answer in left else ANY
    if lease.answer and own in left:
        left[own] -= lease.items
    return {answer: items for answer, items in left.items() if items > 0}
