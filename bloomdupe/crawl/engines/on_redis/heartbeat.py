"""Heartbeat: whether the reactor of a worker runs, or is blocked by a callback."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Heartbeat"]

logger = logger_of(__name__)

UNTIL_WARNING, UNTIL_LOST = 2.0, 4.0
"""Leases for which the reactor may be blocked: then a warning is logged, and then the
worker does not renew its leases any more."""


class Heartbeat:
    """Asks the reactor for a sign of life, from the thread that renews the leases.

    If that thread renewed the leases for ever, a callback that never returns would keep
    the hosts of its worker from all other workers. Silence is counted in questions and
    not in seconds, because a process that was stopped as a whole has not asked, either.
    """

    def __init__(
        self, post: Callable[..., object], interval: float, lease_seconds: float
    ) -> None:
        """``post`` calls a function on the thread of the reactor.

        :meth:`beat` is to be called every ``interval`` seconds.
        """
        self._post = post
        self._interval = interval
        self._until_warning = round(UNTIL_WARNING * lease_seconds / interval)
        self._until_lost = round(UNTIL_LOST * lease_seconds / interval)
        self._asked = self._silent = 0
        self._answered = 0  # only this is changed by the reactor's thread

    @property
    def is_lost(self) -> bool:
        """Whether the reactor was blocked for too long when it was asked last."""
        return self._silent >= self._until_lost

    def beat(self) -> bool:
        """Ask, if the last question was answered; log that the reactor is blocked.

        Returns whether it has been blocked for too long from now on.
        """
        if self._answered == self._asked:
            if self.is_lost:
                logger.warning("The reactor runs again, and so does this worker")
            self._silent = 0
            self._asked += 1
            self._post(self._answer, self._asked)
            return False
        self._silent += 1
        seconds = {"seconds": self._silent * self._interval}
        if self._silent == self._until_warning:
            logger.warning(
                "The reactor has been blocked for %(seconds).0f s: a callback, a"
                " pipeline or an extension does not return. If that goes on, other"
                " workers take the hosts of this worker",
                seconds,
            )
        if self._silent == self._until_lost:
            logger.error(
                "The reactor has been blocked for %(seconds).0f s: this worker does not"
                " renew its leases any more, so other workers take its hosts, and fetch"
                " the pages again that it has not finished (BLOOMDUPE_REDIS_LEASE)",
                seconds,
            )
        return self._silent == self._until_lost

    def _answer(self, number: int) -> None:
        self._answered = number
