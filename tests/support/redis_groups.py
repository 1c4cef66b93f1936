"""Real servers that belong together: a Redis Cluster, or a master with a sentinel."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from support.ports import kept_port
from support.redis_server import RedisServer
from support.shared_data import needs_program
from support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typing_extensions import Self

NODES = 3
SERVICE = "crawls"
DOWN_AFTER = 600_000
"""Milliseconds without an answer after which the sentinel promotes a replica: never.
It does when it is asked to, so no server on a busy machine is taken for a dead one.
"""
GIVES_UP_AFTER = 10_000
"""Milliseconds after which a failover that gets nowhere is given up, to be tried again:
by default three minutes, longer than a worker waits for its Redis.
"""


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


class RedisSentinel:
    """A master with two replicas, and the sentinel that promotes a replica.

    ``with`` starts and ends them, in folders below ``folder``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        ports = [kept_port() for _ in range(NODES)]
        follow = ("--replicaof", "127.0.0.1", str(ports[0]))
        self.nodes = [
            RedisServer(
                folder / f"node{number}",
                *("--repl-diskless-sync-delay", "0"),
                *(follow if number else ()),
                port=port,
            )
            for number, port in enumerate(ports)
        ]
        self._port = kept_port()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for node in self.nodes:
                stack.enter_context(node)
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, stack: ExitStack) -> None:
        # The sentinel asks for replicas at once, and then every ten seconds.
        with self.nodes[0].client() as client:
            until(lambda: _replicas_of(client) == NODES - 1)
        config = self._folder / "sentinel.conf"
        config.write_text(
            f"port {self._port}\n"
            f"sentinel monitor {SERVICE} 127.0.0.1 {self.nodes[0].port} 1\n"
            f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER}\n"
            f"sentinel failover-timeout {SERVICE} {GIVES_UP_AFTER}\n"
        )
        command = [needs_program("redis-server"), str(config), "--sentinel"]
        with (self._folder / "log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        stack.callback(process.wait)
        stack.callback(process.kill)
        until(lambda: self._facts.get("num-slaves") == NODES - 1)

    def _client(self) -> redis.Redis:
        return redis.Redis(port=self._port, retry=Retry(NoBackoff(), 0))

    @property
    def _facts(self) -> dict[str, Any]:
        """The sentinel's facts on the service; nothing while it does not answer."""
        with (
            suppress(redis.ConnectionError, redis.ResponseError),
            self._client() as client,
        ):
            facts: dict[str, Any] = client.sentinel_master(SERVICE)
            return facts
        return {}

    @property
    def master(self) -> RedisServer | None:
        """The server that is the master, as the sentinel says; None if it is silent."""
        # One look at the facts: they change during a failover.
        port = self._facts.get("port")
        return next((one for one in self.nodes if one.port == port), None)

    def kill_master(self) -> None:
        """Kill the master, and wait until another server is the master."""
        until(lambda: self.master)
        old = self.master
        assert old is not None
        old.kill()
        until(lambda: self._is_replaced(old))

    def _is_replaced(self, old: RedisServer) -> bool:
        """Whether there is another master; if not, ask the sentinel for one.

        It refuses while it knows no good replica. On a busy machine it may give up, and
        has to be asked again; but never while it is at it, or it would also replace the
        new master, by a replica that has no data yet.
        """
        facts = self._facts
        if facts and facts["port"] != old.port:
            return True
        if facts and "failover_in_progress" not in facts["flags"]:
            with suppress(redis.RedisError), self._client() as client:
                client.execute_command("SENTINEL FAILOVER", SERVICE)
        return False

    def url(self, name: str) -> str:
        """Return the URL of a filter or a frontier; no server has the first port."""
        hosts = f"127.0.0.1:{kept_port()},127.0.0.1:{self._port}"
        return f"redis+sentinel://{hosts}/{SERVICE}/0#{name}"


def _replicas_of(client: Any) -> int:
    """Return the number of replicas that follow a master."""
    facts = client.info("replication")
    names = [name for name in facts if name.startswith("slave")]
    return sum(facts[name]["state"] == "online" for name in names)
