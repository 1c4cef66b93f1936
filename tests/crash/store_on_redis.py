"""F3 and F25 on a store on Redis, of one worker with one partition."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from generated_spiders import OnDisk
from stop_points import StopPoints
from support.redis_server import LOGGED, RedisServer
from trial import Outcome

from bloomdupe.store.place import SWITCH


@contextmanager
def stores_on_redis(folder: Path) -> Iterator[None]:
    """Have a server keep the stores of all crawls."""
    with RedisServer(folder / "redis", *LOGGED) as server:
        os.environ[SWITCH] = server.url("").removesuffix("#")
        try:
            yield
        finally:
            del os.environ[SWITCH]


class StopPointsOnRedis(StopPoints):
    """The same, between the steps of a commit, too."""

    name = "the same with the store on Redis"
    trials = 12

    def missing(self) -> str | None:
        return None if shutil.which("redis-server") else "needs redis-server"

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        with stores_on_redis(folder):
            return super().run(folder, seed)

    def control(self, folder: Path) -> list[Outcome]:
        with stores_on_redis(folder):
            return super().control(folder)


class GeneratedOnRedis(OnDisk):
    """Programs with a JOBDIR whose store is on Redis."""

    name = "the same with the store on Redis"
    trials = 12

    def missing(self) -> str | None:
        return None if shutil.which("redis-server") else "needs redis-server"

    def engine(self, folder: Path) -> AbstractContextManager[object]:
        return stores_on_redis(folder)

    def control(self, folder: Path) -> list[Outcome]:
        with self.engine(folder):
            return super().control(folder)
