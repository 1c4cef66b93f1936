"""Cutting: a connection to Redis that can lose an answer."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from support.redis_server import RedisServer

SILENCE = 0.2
"""Seconds for which a client waits for an answer that does not come."""


class Cutting:
    """Stands between a client and a server; it can keep an answer to itself."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._lose = ""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def _pass(self, client: socket.socket) -> None:
        upstream = socket.socket(socket.AF_UNIX)
        with client, upstream, suppress(OSError):
            upstream.connect(str(self._server.socket))
            silent = False
            while True:
                # Requests and answers come in pieces, of any size.
                ready, _, _ = select.select([client, upstream], [], [])
                if client in ready:
                    if not (request := client.recv(1 << 20)):
                        return
                    upstream.sendall(request)
                    continue
                if not (answer := upstream.recv(1 << 20)):
                    return
                how, self._lose = self._lose, ""
                if how == "cut":
                    return
                silent = silent or how == "silent"
                if not silent:
                    client.sendall(answer)

    def lose(self, how: str, client: Any) -> None:
        """Lose the next answer to a client: the connection is cut, or ``silent``.

        The client is impatient for that answer only. A slow machine may be late with
        any other.
        """
        for connection in client.connection_pool._available_connections:
            connection.connect()
            if how == "silent":
                connection._sock.settimeout(SILENCE)
        self._lose = how

    def close(self) -> None:
        """Take no more connections."""
        self._listening.close()
