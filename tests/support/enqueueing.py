"""How requests come into a frontier: as the scheduler takes them in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bloomdupe.frontier.frontier import Frontier


def enqueue(
    frontier: Frontier,
    fingerprint: bytes,
    slot: str = "host",
    priority: int = 0,
    *,
    start: bool = False,
) -> bool:
    """Enqueue a request with its fingerprint as its payload, unless it was seen."""
    new = frontier.seen.add(fingerprint)
    if new:
        frontier.push(slot, priority, fingerprint, start=start)
    return new
