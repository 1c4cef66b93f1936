"""Servers of a disturbed crawl: their answers are durable, unless they go back."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from support.ports import kept_port
from support.redis_server import FOLLOWED, LOGGED, RedisServer
from typing_extensions import Self

JOB = "crawl"
"""The job of the disturbed crawl."""
REFUSALS = {
    "full": ("maxmemory", 1, 0),
    "without replicas": ("min-replicas-to-write", 1, 0),
}
"""Settings with which Redis refuses to write for a while, and their usual values."""


class OneRedis:
    """A server, or the replica that has taken its place, behind one socket."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self._socket = folder / "socket"
        self.server = self._new()

    def _new(self) -> RedisServer:
        self._count += 1
        folder = self._folder / f"redis{self._count}"
        return RedisServer(folder, *LOGGED, *FOLLOWED, port=kept_port())

    def __enter__(self) -> Self:
        self.server.start()
        self._socket.symlink_to(self.server.socket)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.kill()

    def url(self, name: str, worker: str = "") -> str:
        """Return the URL of a job, for a worker."""
        if not worker:
            return f"unix://{self._socket}#{name}"
        # A way of its own, which can be cut.
        self._way(worker).symlink_to(self._socket)
        return f"unix://{self._way(worker)}?client_name={worker}#{name}"

    def _way(self, worker: str) -> Path:
        return self._folder / f"{worker}.s"

    def part(self, worker: str, meanwhile: Callable[[], object]) -> None:
        """Let one worker not reach it; the other workers do."""
        self._way(worker).unlink()
        with self.server.client() as client:
            for one in client.client_list():
                if one["name"] == worker:
                    client.execute_command("CLIENT", "KILL", "ID", one["id"])
        meanwhile()
        self._way(worker).symlink_to(self._socket)

    def disturb(self, what: str, seconds: float, rng: Random) -> None:
        """Let something happen to it, which takes so many seconds or more."""
        server = self.server
        if what == "promote":
            self._promote(seconds)
        elif what == "back":
            server.go_back(seconds, rng)
        elif what == "stall":
            server.stall(seconds)
        elif what == "cut off":
            with server.client() as client:
                client.execute_command("CLIENT", "KILL", "TYPE", "normal")
        elif what in REFUSALS:
            name, refusing, normal = REFUSALS[what]
            with server.client() as client:
                client.config_set(name, refusing)
                time.sleep(seconds)  # noqa: TID251 - a fault strikes at any time
                client.config_set(name, normal)
        else:
            server.kill()
            time.sleep(seconds)  # noqa: TID251 - a fault strikes at any time
            server.start()

    def _promote(self, seconds: float) -> None:
        """Let a replica follow for some time, and replace a dead master."""
        replica = self._new()
        replica.start()
        replica.take_over(self.server, seconds)
        self.server = replica
        self._socket.unlink()
        self._socket.symlink_to(replica.socket)
