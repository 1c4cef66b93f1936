"""Visits: the known facts about a page that comes again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Visit:
    """A page after its last visit; the payload of its next request carries it.

    It also carries the data that a retry or redirect inherits from the request before
    it. In the payload it is a list of the attributes, in this order.
    """

    known: bool = False
    """Whether a visit has found the page."""
    rule: float | None = None
    """The rule of the first request, if this is the target of its redirect."""
    origin: bytes | None = None
    """This first request, as a payload."""
    renewed: bool = False
    """Whether it starts to come again even if it did so before: the user asked for it,
    and no other visit is pending.
    """

    @property
    def values(self) -> list[Any]:
        """Return the list for a payload."""
        return [getattr(self, name) for name in _FIELDS]


_FIELDS = tuple(Visit.__dataclass_fields__)
