"""Glance: everything about a running crawl that its metrics show, at a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bloomdupe.crawl.progress.history import Point

__all__ = ["Glance", "HostGlance"]


class HostGlance(NamedTuple):
    """One of the slots (hosts) with the most pending requests."""

    slot: str
    pending: int
    pages: int
    resting: bool


class Glance(NamedTuple):
    """A running crawl. It is not changed any more, so another thread may read it."""

    point: Point
    checkpoint_at: float
    """Unix time of the last checkpoint; 0: there was none in this run."""
    to_go: float | None
    """Estimated seconds until no request is pending; None: unknown."""
    next_due: float | None
    """Unix time of the next request scheduled for later; None: there is none."""
    failures: Mapping[str, int]
    """Failed requests by reason."""
    retries: int
    """Retries of this run."""
    revisits: Mapping[str, int]
    """Visits of this run to pages that were known: changed, unchanged, failed."""
    hosts: list[HostGlance]
