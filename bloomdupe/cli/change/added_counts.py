"""Counts of given requests by result, in words and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bloomdupe.crawl.progress.plural import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bloomdupe.jobs.on_disk.adding import Added

__all__ = ["as_json", "blocked_in_words", "by_the_crawl", "in_words"]


def in_words(added: Added) -> Iterator[str]:
    """Yield a line for each count that is not 0."""
    yield f"{by_the_crawl(taken_up=added.taken_up)}{added.taken_in:,} pending now"
    if added.seen:
        yield f"{plural(added.seen, 'was', 'were')} seen before: skipped"
    if added.waited:
        yield f"{plural(added.waited, 'was', 'were')} pending already: not added"
    if added.unseen:
        yield f"{plural(added.unseen, 'was', 'were')} never seen: use `bloomdupe add`"
    yield from blocked_in_words(added.blocked)
    if added.problems.count:
        yield f"{added.problems.count:,} could not be read:"
        yield from added.problems.lines()


def by_the_crawl(*, taken_up: bool) -> str:
    """Return the beginning of a line about a change: whether the crawl has made it."""
    return "taken up by the running crawl: " if taken_up else ""


def blocked_in_words(number: int) -> Iterator[str]:
    """Yield a line about requests kept out by rules, if any, and the remedy."""
    if number:
        blocked = plural(number, "is", "are")
        yield f"{blocked} blocked: `bloomdupe block --undo` deletes a rule"


def as_json(added: Added) -> dict[str, Any]:
    """Return plain types."""
    found = asdict(added)
    del found["problems"]
    return found | {"broken": added.problems.as_dict()}
