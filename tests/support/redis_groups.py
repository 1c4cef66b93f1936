"""Real servers that belong together: a Redis Cluster, or a master with a sentinel."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from support.ports import kept_port
from support.redis_server import RedisServer, Replaced
from support.shared_data import needs_program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typing_extensions import Self

NODES = 3
SERVICE = "crawls"
DOWN_AFTER = 600_000
"""Milliseconds without an answer after which the sentinel takes it for dead: never."""


@contextmanager
def redis_cluster(folder: Path, *options: str) -> Iterator[str]:
    """Yield the address of three servers that share the slots of a Cluster."""
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(
                RedisServer(
                    folder / f"node{number}",
                    *("--cluster-enabled", "yes", "--cluster-port", str(kept_port())),
                    *options,
                    port=kept_port(),
                )
            )
            for number in range(NODES)
        ]
        places = [f"127.0.0.1:{node.port}" for node in nodes]
        program = needs_program("redis-cli", "redis-tools")
        subprocess.run(
            [program, "--cluster", "create", *places, "--cluster-yes"],
            stdout=subprocess.DEVNULL,
            check=True,
        )
        yield f"redis://{places[0]}"


class RedisSentinel(Replaced):
    """A master, and the sentinel that names it; ``with`` starts and ends them.

    The sentinel takes no silent server for a dead one, on a busy machine neither.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        config = folder / "sentinel.conf"
        config.write_text("")  # it writes what it knows there
        self._sentinel = RedisServer(
            folder / "sentinel", str(config), "--sentinel", port=kept_port()
        )

    def __enter__(self) -> Self:
        self._sentinel.start()
        self.server.start()
        self._name_master()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.kill()
        self._sentinel.kill()

    def _name_master(self) -> None:
        with self._sentinel.client() as client:
            client.sentinel_monitor(SERVICE, "127.0.0.1", self.server.port, 1)
            client.sentinel_set(SERVICE, "down-after-milliseconds", DOWN_AFTER)

    def kill_master(self) -> None:
        """Let a replica take its place, and the sentinel name that one."""
        self.promote()
        with self._sentinel.client() as client:
            client.sentinel_remove(SERVICE)
        self._name_master()

    def url(self, name: str) -> str:
        """Return the URL of a filter or a frontier; no server has the first port."""
        hosts = f"127.0.0.1:{kept_port()},127.0.0.1:{self._sentinel.port}"
        return f"redis+sentinel://{hosts}/{SERVICE}/0#{name}"
