"""News: a change that the running crawl has made for a verb, as a line of its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.crawl.progress.pace import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bloomdupe.crawl.changes.change import Answer, Change

DONE = {
    "add": "Added by `bloomdupe add`",
    "requeue": "Made pending again by `bloomdupe requeue`",
    "requeue failed": "Made pending again by `bloomdupe requeue`",
    "drop": "Removed by `bloomdupe drop`",
    "block": "Removed by `bloomdupe block`",
    "pause": "Paused by `bloomdupe pause`",
    "stop": "Asked to stop by `bloomdupe stop`",
}
UNDONE = {
    "block": "Allowed again by `bloomdupe block --undo`",
    "pause": "Let go on by `bloomdupe resume`",
}
COUNTS = {
    "seen": "known already",
    "waited": "pending already",
    "unseen": "never seen",
    "blocked": "blocked",
    "in_progress": "in progress",
    "left": "left",
    "pending": "pending",
}
"""Counts of answers in words; those that are 0 are left out."""


def news_of(change: Change, answer: Answer) -> str | None:
    """Return the line; None if the verb has ``more`` of it.

    Then its last change has the counts ``so_far``.
    """
    if "refused" in answer:
        return f"A change in the inbox is refused: {answer['refused']}"
    if change["kind"] == "add" and change.get("more"):
        return None
    kind = change["kind"]
    undone = UNDONE if change.get("undo") else DONE
    done = undone.get(kind, DONE[kind])
    parts = ", ".join(_parts(change, answer))
    return f"{done}: {parts}" if parts else done


def _parts(change: Change, answer: Answer) -> Iterator[str]:
    counts = {**answer}
    so_far = change.get("so_far", {}) if change["kind"] == "add" else {}
    for name, before in so_far.items():
        counts[name] = counts.get(name, 0) + before
    if "slot" in change and "paused" in answer:
        yield f"slot {change['slot']!r}"
    for name in ("taken_in", "dropped"):
        if name in counts and not change.get("undo"):
            yield plural(counts[name], "request")
    for name, words in COUNTS.items():
        if counts.get(name):
            yield f"{counts[name]:,} {words}"
    if "rules" in answer:
        yield f"{plural(len(answer['rules']), 'rule')} in all"
