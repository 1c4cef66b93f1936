"""QueueOrder: which request of a slot goes first, as Scrapy's settings have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy.utils.misc import load_object

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

__all__ = ["QueueOrder"]


class QueueOrder(NamedTuple):
    """The order within a priority."""

    fifo: bool
    """The oldest request first, else the newest."""
    start_fifo: bool
    """The same among start requests."""
    starts_apart: bool
    """Whether start requests come after all other requests of their priority."""

    @classmethod
    def of(cls, settings: BaseSettings, *, durable: bool) -> QueueOrder:
        """Read it from the queue classes that Scrapy would use."""
        kind = "DISK" if durable else "MEMORY"
        queue = settings[f"SCHEDULER_{kind}_QUEUE"]
        start_queue = settings[f"SCHEDULER_START_{kind}_QUEUE"]
        # Without a queue of their own, start requests are like all others.
        return cls(_is_fifo(queue), _is_fifo(start_queue or queue), bool(start_queue))


def _is_fifo(name: str) -> bool:
    """Whether a queue class of Scrapy takes the oldest request first."""
    return "fifo" in load_object(name).__name__.lower() or "fifo" in str(name).lower()
