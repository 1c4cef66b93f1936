"""Ports for servers that take a number, and no socket."""

from __future__ import annotations

import socket

__all__ = ["kept_port"]


def kept_port() -> int:
    """Return a port of this machine that is kept for as long as this process lives.

    Until a server listens there, connections to it are refused. No other process gets
    it: the socket stays bound. It never listens, so Linux lets a server that has set
    ``SO_REUSEADDR`` listen on the port, once or again.
    """
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    port: int = kept.getsockname()[1]
    kept.detach()  # the kernel closes it with the process
    return port
