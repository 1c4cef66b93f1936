"""CookieStore: the cookies of a crawl, for all its workers."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bloomdupe.redis.server import Server

__all__ = ["CookieStore"]

AT_ONCE = 500
"""Cookies per command."""


class CookieStore:
    """Keeps packed cookies under digests, and tells each worker which are new to it.

    The last change of a cookie wins. Raises the errors of
    :class:`~bloomdupe.redis.server.Server`; every call may be repeated after an error.
    """

    def __init__(self, server: Server, worker: str) -> None:
        self._server = server
        self._worker = worker
        self._known: str | bytes = "0"
        self._interruptions = server.interruptions.count

    def keep(self, changes: Sequence[tuple[bytes, bytes]]) -> None:
        """Store cookies that this worker has changed: digests, and packed cookies."""
        for first in range(0, len(changes), AT_ONCE):
            some = changes[first : first + AT_ONCE]
            self._server.run("keep_cookies", self._worker, *chain.from_iterable(some))

    def news(self) -> list[bytes]:
        """Return the changes of other workers since the last call, oldest first."""
        count = self._server.interruptions.count
        if count != self._interruptions:
            # Redis may have lost its last writes, and counts on from there.
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
