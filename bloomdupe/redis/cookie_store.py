"""CookieStore: the cookies of a crawl, for all its workers."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bloomdupe.redis.server import Server

__all__ = ["CookieStore"]

AT_ONCE = 500
"""Cookies that travel together."""


class CookieStore:
    """Keeps what it is given under digests, and tells each worker what is new to it.

    The last one who has changed a cookie is right. Errors as of
    :class:`~bloomdupe.redis.server.Server`; every call may be made again after one.
    """

    def __init__(self, server: Server, worker: str) -> None:
        self._server = server
        self._worker = worker
        self._known: str | bytes = "0"
        self._interruptions = server.interruptions.count

    def keep(self, changes: Sequence[tuple[bytes, bytes]]) -> None:
        """Keep what this worker has changed: digests, and what is to be kept."""
        for first in range(0, len(changes), AT_ONCE):
            some = changes[first : first + AT_ONCE]
            self._server.run("keep_cookies", self._worker, *chain.from_iterable(some))

    def news(self) -> list[bytes]:
        """Return what others have changed since the last time, oldest first."""
        count = self._server.interruptions.count
        if count != self._interruptions:
            # Redis may have gone back, and counts from there.
            self._known, self._interruptions = "0", count
        news: list[bytes] = []
        while True:
            known, *some = self._server.run(
                "new_cookies", self._worker, self._known, AT_ONCE
            )
            news += some
            if known == self._known:
                return news
            self._known = known
