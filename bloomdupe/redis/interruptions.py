"""Interruptions: whether a server may have lost what it has answered."""

from __future__ import annotations

from typing import Any

__all__ = ["Interruptions"]


class Interruptions:
    """Counts the moments from which on a Redis may be another one, or an older one.

    A server that was killed, or whose replica has taken its place, may go back by a
    moment. It does not say so, but the connection to it is another one then. So no
    connection is replaced in silence: whoever would use the next one gets an error
    first, and may try again.
    """

    def __init__(self) -> None:
        self.count = 0
        self._connected: set[tuple[object, ...]] = set()
        self._expected: set[tuple[object, ...]] = set()

    def happened(self) -> None:
        """Take note of an error: from now on, other connections are no surprise."""
        self.count += 1
        self._expected = set(self._connected)

    def made_up_for(self) -> None:
        """Take note that what may be lost was sent once more."""
        self._expected.clear()

    def surprises(self, connection: Any) -> bool:  # noqa: ANN401 - redis-py has several
        """Whether a new connection takes the place of one that nobody knows is lost."""
        server = tuple(
            getattr(connection, name, None) for name in ("host", "port", "path")
        )
        if server in self._connected and server not in self._expected:
            self.happened()
            return True
        self._connected.add(server)
        self._expected.discard(server)
        return False
