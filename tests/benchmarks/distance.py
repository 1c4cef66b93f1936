"""Distance: a way to a Redis on which every answer is late."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # or it would have to be on the path before ``runner`` puts it there
    from support.redis_server import RedisServer

AT_ONCE = 1 << 16


class Distance:
    """Passes bytes on between clients and a server; answers come some seconds later."""

    def __init__(self, server: RedisServer, seconds: float) -> None:
        self._server = server
        self._seconds = seconds
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Distance:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                upstream = socket.socket(socket.AF_UNIX)
                upstream.connect(str(self._server.socket))
                on_the_way: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
                for target, arguments in (
                    (_pass, (client, upstream)),
                    (self._read, (upstream, on_the_way)),
                    (_deliver, (on_the_way, client)),
                ):
                    Thread(target=target, args=arguments, daemon=True).start()

    def _read(
        self, upstream: socket.socket, on_the_way: SimpleQueue[tuple[float, bytes]]
    ) -> None:
        answer = b"."
        while answer:
            answer = upstream.recv(AT_ONCE)
            on_the_way.put((time.monotonic() + self._seconds, answer))


def _pass(client: socket.socket, upstream: socket.socket) -> None:
    with client, upstream, suppress(OSError):
        while request := client.recv(AT_ONCE):
            upstream.sendall(request)
        upstream.shutdown(socket.SHUT_WR)


def _deliver(
    on_the_way: SimpleQueue[tuple[float, bytes]], client: socket.socket
) -> None:
    with suppress(OSError):
        while True:
            due, answer = on_the_way.get()
            if not answer:
                return
            time.sleep(max(0.0, due - time.monotonic()))
            client.sendall(answer)
