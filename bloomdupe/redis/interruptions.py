"""Interruptions: whether a server may have lost data that it had confirmed."""

from __future__ import annotations

from typing import Any

__all__ = ["Interruptions"]


class Interruptions:
    """Counts the interruptions after which a Redis may hold older data.

    A server that was killed, or was replaced by its replica, may lose its last writes.
    It does not report this, but the client then needs a new connection. So no
    connection is replaced silently: the first command on the new connection raises an
    error, and the caller may try again.
    """

    def __init__(self) -> None:
        self.count = 0
        self._connected: set[tuple[object, ...]] = set()
        self._expected: set[tuple[object, ...]] = set()

    def happened(self) -> None:
        """Count an error; the new connections that follow it are expected."""
        self.count += 1
        self._expected = set(self._connected)

    def made_up_for(self) -> None:
        """Expect no more new connections: all that may be lost was sent again."""
        self._expected.clear()

    def surprises(self, connection: Any) -> bool:  # noqa: ANN401 - redis-py has several
        """Whether a new connection replaces one whose loss was not reported yet."""
        server = tuple(
            getattr(connection, name, None) for name in ("host", "port", "path")
        )
        if server in self._connected and server not in self._expected:
            self.happened()
            return True
        self._connected.add(server)
        self._expected.discard(server)
        return False
