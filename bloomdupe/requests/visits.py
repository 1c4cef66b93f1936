"""Visits: the known facts about a page that comes again."""

from __future__ import annotations

from dataclasses import dataclass

from bloomdupe.requests.layout import changed, unpacked

_FULL = 0x96
"""First byte of a stored request with a visit."""


@dataclass(frozen=True)
class Visit:
    """A page after its last visit; the payload of its next request carries it.

    It also carries the data that a retry or redirect inherits from the request before
    it. In the payload it is a list of the attributes, in this order. It is the last
    element and not a part of the request, so that a request made with a copy of its
    ``meta`` does not inherit it.
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

    @classmethod
    def of(cls, payload: bytes | None) -> Visit | None:
        """Return the visit in a payload, or None."""
        if not payload or payload[0] != _FULL:
            return None
        return cls(*unpacked(payload)[-1])

    def added_to(self, payload: bytes) -> bytes:
        """Return a payload with its visit replaced by this one."""
        return changed(payload, {}, [getattr(self, name) for name in _FIELDS])


_FIELDS = tuple(Visit.__dataclass_fields__)
