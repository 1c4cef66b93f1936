"""WorkerState: ``spider.state`` of a worker with a name, kept on Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.crawl.state.spider_state import STATE, SpiderState
from bloomdupe.inside_scrapy.timer import Timer

if TYPE_CHECKING:
    from collections.abc import Callable

    from bloomdupe.crawl.engines.session import Session
    from bloomdupe.redis.shared_frontier import SharedFrontier

__all__ = ["WorkerState"]

EVERY = 0.5
"""Seconds between two looks at the state."""


class WorkerState:
    """Keeps ``spider.state`` under the name that the user has given to this worker.

    It is looked at twice a second, and sent to Redis if it has changed, after the pages
    that were done by then. ``keep`` sends it. Raises the errors of
    :meth:`SharedFrontier.take_state`.
    """

    def __init__(
        self,
        session: Session,
        frontier: SharedFrontier,
        keep: Callable[[bytes | None], None],
    ) -> None:
        self._state = SpiderState(
            session.crawler, session.serializer, "on Redis, so it ends with this worker"
        )
        self._keep = keep
        self._timer = Timer(self._look)
        self._state.restore(frontier.take_state())

    def begin(self) -> None:
        """Begin to look."""
        self._timer.set(EVERY)

    def _look(self) -> None:
        self._send()
        self._timer.set(EVERY)

    def _send(self) -> None:
        if self._state.changed:
            part = self._state.prepare()
            if part.blobs or part.gone:
                self._keep(part.blobs.get(STATE))
            part.done()

    def end(self) -> None:
        """Send the last state."""
        self._timer.cancel()
        self._send()
