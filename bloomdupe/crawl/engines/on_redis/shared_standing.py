"""SharedStanding: how a crawl on Redis stands, as far as a worker knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.crawl.progress.pace import plural
from bloomdupe.redis.frontier_reader import LeftOver

if TYPE_CHECKING:
    from bloomdupe.crawl.engines.on_redis.requests.later_on_redis import LaterOnRedis
    from bloomdupe.crawl.engines.on_redis.worker import Worker
    from bloomdupe.crawl.progress.history import Point

__all__ = ["SharedStanding"]

OF_ALL = (
    "pages", "bytes", "items", "duplicates", "statuses", "seen", "pending", "leased",
    "slots", "failed", "later",
)  # fmt: skip
"""Figures of a point that are about all workers; the rest are those of a process."""


class SharedStanding:
    """The last look at the whole crawl, and the requests that no worker can do now.

    Redis has nothing to do if its thread has said so, and this worker has offered
    nothing since: then the thread looks again. Requests in memory do not count.
    """

    def __init__(self, worker: Worker, later: LaterOnRedis) -> None:
        self._worker = worker
        self._later = later
        self.whole: Point | None = None
        """The whole crawl, as it was looked at last."""
        self._ended_at = -1
        """Number of offers after which Redis had nothing to do."""
        self._left = LeftOver()

    def end(self, offered: int, left: LeftOver) -> bool:
        """Note that nothing but this is pending, unless more was offered since.

        Returns whether that holds.
        """
        if self._worker.offered != offered:
            return False
        self._ended_at, self._left = offered, left
        self._later.found(left)
        return True

    def go_on(self) -> None:
        """Note that Redis has requests to do."""
        self._ended_at = -1
        self._later.found(LeftOver())

    @property
    def ended(self) -> bool:
        """Whether no other worker has requests, as far as this worker knows."""
        return self._ended_at == self._worker.offered

    @property
    def later(self) -> int:
        """Number of requests that are scheduled for later."""
        return self._later.waiting if self.ended else 0

    @property
    def left(self) -> int:
        """Number of requests that are not done, and that no worker can do now."""
        return self._left.left + self._left.aside + self.later

    @property
    def remedy(self) -> str:
        """Where requests stay that are left, and the remedy, for a message."""
        said = []
        if self._left.left:
            said.append(
                "Pages broken off by an error outside of their callbacks:"
                f" {self._left.left}; see the errors above, or in the logs of other"
                " workers."
            )
        if self._left.aside:
            said.append(
                f"Requests that were set aside: {self._left.aside}; `bloomdupe info"
                " URL` says why."
            )
        said.append("They stay in Redis. Mend the cause, and start a worker again")
        return " ".join(said)

    def of_all(self, point: Point) -> Point:
        """Return a point with the figures of all workers, as far as they are known."""
        if self.whole is None:
            return point
        return point._replace(**{name: getattr(self.whole, name) for name in OF_ALL})

    def said(self, *kinds: str) -> str:
        """Return the figures of all workers, for a message; empty if unknown."""
        if self.whole is None:
            return ""
        figures = (plural(getattr(self.whole, f"{kind}s"), kind) for kind in kinds)
        return f"; {', '.join(figures)} by all workers"
