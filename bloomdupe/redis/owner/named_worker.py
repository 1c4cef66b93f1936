"""NamedWorker: a worker's name that the user has given, and the state under it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bloomdupe.errors import StoreLockedError

if TYPE_CHECKING:
    from bloomdupe.redis.server import Server

__all__ = ["NamedWorker"]


class NamedWorker:
    """Has a name while its worker runs, and keeps the worker's state under the name.

    The name is held by a lease, as partitions are. The state is kept in Redis for the
    next worker of this name. Raises the errors of
    :class:`~bloomdupe.redis.server.Server`; every call may be repeated after an error.
    """

    def __init__(
        self, server: Server, name: str, worker: str, milliseconds: int
    ) -> None:
        self._server = server
        self._name = name
        self._worker = worker
        self._milliseconds = milliseconds

    def take(self) -> bytes | None:
        """Take the name; return the state of the last worker that had it.

        Raises :class:`~bloomdupe.errors.StoreLockedError` if another worker has it.
        """
        return self._run(self._milliseconds) or None

    def renew(self) -> None:
        """Keep the name; errors as in :meth:`take`."""
        self._run(self._milliseconds)

    def keep(self, state: bytes | None) -> None:
        """Keep a state; errors as in :meth:`take`."""
        self._run(self._milliseconds, 1, state or b"")

    def give_back(self) -> None:
        """Give the name back, when the worker ends."""
        self._run(0)

    def _run(self, milliseconds: int, brings: int = 0, state: bytes = b"") -> bytes:
        left, found = self._server.run(
            "named_worker", self._name, self._worker, milliseconds, brings, state
        )
        if left:
            raise StoreLockedError(
                f"{self._server.address.shown}: BLOOMDUPE_REDIS_WORKER ="
                f" {self._name!r} is the name of another worker, which runs, or was"
                f" killed; its lease ends in {math.ceil(left / 1000)} s. Wait until"
                " then, or take another name"
            )
        kept: bytes = found
        return kept
