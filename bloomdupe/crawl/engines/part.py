"""Part: the data that a participant writes in a checkpoint."""

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
    """Changes to the record ``crawl`` and to the database ``blobs``."""

    record: dict[str, Any] = field(default_factory=dict)
    """Entries of the record."""
    blobs: dict[str, bytes] = field(default_factory=dict)
    """Named values to store, in the place of those with the same names."""
    gone: tuple[str, ...] = ()
    """Names of values to remove."""
    done: Callable[[], None] = _nothing
    """Called once, when all of this is durable."""


class Participant(Protocol):
    """A participant of the checkpoint, in two phases.

    ``prepare`` computes the data to write and does not change the participant, so it
    may raise, and may be called again if the commit fails. ``Part.done`` records
    exactly the prepared data as written: more may have come meanwhile.
    """

    def prepare(self) -> Part:
        """Compute the participant's part of the next checkpoint."""
