# mypy: ignore-errors
"""Answers: how many items each answer to a request has brought to the output."""

from __future__ import annotations

from typing import TypeAlias

from mmh3 import mmh3_x64_128_digest
from scrapy.http import Response
from twisted.python.failure import Failure

Answers: TypeAlias = dict[str, int]
"""Items by the answer that has brought them; see :func:`answer_of`."""
ANY = ""
"""Stands for all answers: an earlier version did not tell them apart."""
MOST_ANSWERS = 16
"""Number of answers that are remembered for a request: the newest."""


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
