"""Backoff: a server that says Retry-After is left alone until then."""

from __future__ import annotations

import time
from datetime import timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from bloomdupe.crawl.engines.part import Part

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response

    from bloomdupe.inside_scrapy.engine import EngineAccess

__all__ = ["Backoff", "seconds_of"]

STATUSES = (429, 503)
"""Those for which Retry-After says when the server will answer again: RFC 9110,
section 10.2.3, and RFC 6585, section 4."""


class Backoff:
    """Holds a slot back as long as its server asks for, ``limit`` seconds at most."""

    def __init__(self, engine: EngineAccess, limit: float) -> None:
        self._engine = engine
        self._limit = limit

    def take_up(self, holds: dict[str, float]) -> None:
        """Go on with what the last checkpoint holds: Unix time by slot."""
        self._engine.restore_holds(holds)

    def prepare(self) -> Part:
        """Work out what the next checkpoint writes."""
        return Part({"holds": self._engine.holds()})

    def response_downloaded(self, response: Response, request: Request) -> None:
        """Look at a response (a signal)."""
        if response.status not in STATUSES:
            return
        value = response.headers.get("Retry-After")
        seconds = None if value is None else seconds_of(value)
        if seconds:
            slot = self._engine.slot_of(request)
            self._engine.hold(slot, time.time() + min(seconds, self._limit))


def seconds_of(value: bytes) -> float | None:
    """Read a Retry-After header: seconds from now, or None if it is not one."""
    text = value.decode("latin-1").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=timezone.utc)
    return max(0.0, date.timestamp() - time.time())
