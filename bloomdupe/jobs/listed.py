"""Requests of a job, as the verb ``list`` shows them."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ListedItems", "ListedRequest"]


class ListedRequest(NamedTuple):
    """A request that is pending or in progress."""

    slot: str
    method: str
    url: str
    priority: int
    callback: str | None
    not_before: float | None = None
    """Unix time before which it is not fetched."""
    problem: str | None = None
    """The reason why it cannot be read."""
    worker: str | None = None
    """In a crawl on Redis, the worker that processes it."""


class ListedItems(NamedTuple):
    """Items of ``start()``, on their way to the output of a crawl on Redis."""

    slot: str
    priority: int
    lines: int
    worker: str | None = None
