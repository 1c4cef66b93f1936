"""Part: what one participant of a checkpoint has to write."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Part", "Participant"]


def _nothing() -> None:
    pass


@dataclass
class Part:
    """What belongs in the record ``crawl`` and in the database ``blobs``."""

    record: dict[str, Any] = field(default_factory=dict)
    """Entries of the record."""
    blobs: dict[str, bytes] = field(default_factory=dict)
    """Named values to store, in the place of those with the same names."""
    gone: tuple[str, ...] = ()
    """Names of values to remove."""
    done: Callable[[], None] = _nothing
    """Called once, when all that is durable."""


class Participant(Protocol):
    """Whatever is part of the checkpoint, in two phases.

    ``prepare`` works out what has to be written and changes nothing of its own, so it
    may be called again if the commit fails, or raise. ``Part.done`` takes note of
    exactly what was prepared: more may have come meanwhile.
    """

    def prepare(self) -> Part:
        """Work out what the next checkpoint writes."""
