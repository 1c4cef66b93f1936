"""Counts of given requests by result, in words and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bloomdupe.jobs.intake import Taken

__all__ = ["as_json", "blocked_in_words", "in_words"]


def in_words(taken: Taken) -> Iterator[str]:
    """Yield a line for each count that is not 0."""
    yield f"{taken.taken_in:,} wait now"
    if taken.seen:
        yield f"{taken.seen:,} were seen before: dropped"
    if taken.waited:
        yield f"{taken.waited:,} waited already: left as they are"
    if taken.unseen:
        yield f"{taken.unseen:,} were never seen: `bloomdupe add` takes them in"
    yield from blocked_in_words(taken.blocked)
    if taken.problems.count:
        yield f"{taken.problems.count:,} could not be read:"
        yield from taken.problems.lines()


def blocked_in_words(number: int) -> Iterator[str]:
    """Yield a line about requests kept out by rules, if any, and the remedy."""
    if number:
        yield f"{number:,} are blocked: `bloomdupe block --undo` takes a rule back"


def as_json(taken: Taken) -> dict[str, Any]:
    """Return plain types."""
    found = asdict(taken)
    del found["problems"]
    return found | {"broken": taken.problems.as_dict()}
