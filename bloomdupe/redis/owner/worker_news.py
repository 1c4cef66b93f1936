"""News: texts of a worker for the other workers, such as cookies."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from bloomdupe.redis.server import AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bloomdupe.redis.server import Server

__all__ = ["News"]


class News:
    """Keeps a text for each subject, and gives each worker the texts that it lacks.

    The last text of a subject wins. Raises the errors of
    :class:`~bloomdupe.redis.server.Server`; every call may be repeated after an error.
    """

    def __init__(self, server: Server, worker: str) -> None:
        self._server = server
        self._worker = worker
        self._known: str | bytes = "0"
        self._interruptions = server.interruptions.count

    def keep(self, changes: Sequence[tuple[bytes, bytes]]) -> None:
        """Store the news of this worker: subjects, and texts."""
        for first in range(0, len(changes), AT_ONCE):
            some = changes[first : first + AT_ONCE]
            words = chain.from_iterable(some)
            self._server.run("keep_news", self._worker, *words)

    def read(self) -> list[bytes]:
        """Return the news of other workers since the last call, oldest first."""
        count = self._server.interruptions.count
        if count != self._interruptions:
            # Redis may have lost its last writes, and counts on from there.
            self._known, self._interruptions = "0", count
        news: list[bytes] = []
        last = self._known
        while True:
            known, *some = self._server.run("news", self._worker, last, AT_ONCE)
            news += some
            if known == last:
                self._known = last  # not before: an error loses what was read
                return news
            last = known
