"""Cutting: a connection to Redis that can lose an answer."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from support.waiting import until

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
        self.until_lost()  # Redis must not hear of a repetition before
        upstream = socket.socket(socket.AF_UNIX)
        with client, upstream, suppress(OSError):
            upstream.connect(str(self._server.socket))
            asked = silent = False
            while True:
                # Requests and answers come in pieces, of any size.
                ready, _, _ = select.select([client, upstream], [], [])
                if client in ready:
                    request = client.recv(1 << 20)
                    if not request and asked and self._lose:  # it was impatient
                        upstream.recv(1 << 20)
                        self._lose = ""
                    if not request:
                        return
                    upstream.sendall(request)
                    asked = True
                    continue
                if not (answer := upstream.recv(1 << 20)):
                    return
                asked = False
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

    def until_lost(self) -> None:
        """Wait until the server has given that answer.

        An impatient client gives it up before this thread, or the server, has its turn.
        """
        until(lambda: not self._lose)

    def close(self) -> None:
        """Take no more connections."""
        self._listening.close()
