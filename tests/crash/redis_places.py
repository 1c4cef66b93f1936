"""Servers of a disturbed crawl: their answers are durable, unless they go back."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from support.redis_server import LOGGED, Replaced
from typing_extensions import Self

JOB = "crawl"
"""The job of the disturbed crawl."""
REFUSALS = {
    "full": ("maxmemory", 1, 0),
    "without replicas": ("min-replicas-to-write", 1, 0),
}
"""Settings with which Redis refuses to write for a while, and their usual values."""


class OneRedis(Replaced):
    """It, behind one socket."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, *LOGGED)
        self._socket = folder / "socket"

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
            self.promote(seconds)
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

    def promote(self, seconds: float = 0) -> None:
        super().promote(seconds)
        self._socket.unlink()
        self._socket.symlink_to(self.server.socket)
