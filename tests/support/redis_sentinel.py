"""A real master with replicas, and the sentinel that promotes a replica."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from support.ports import kept_port
from support.redis_server import RedisServer
from support.shared_data import needs_program
from support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

REPLICAS = 2
SERVICE = "crawls"
DOWN_AFTER = 600_000
"""Milliseconds without an answer after which the sentinel promotes a replica: never.
It does when it is asked to, so no server on a busy machine is taken for a dead one.
"""


class RedisSentinel:
    """Servers of which one is the master at a time; ``with`` starts and ends them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        at_once = ("--repl-diskless-sync-delay", "0")
        master = RedisServer(folder / "node0", *at_once, port=kept_port())
        follow = ("--replicaof", "127.0.0.1", str(master.port))
        self._nodes = [
            master,
            *(
                RedisServer(
                    folder / f"node{n + 1}", *at_once, *follow, port=kept_port()
                )
                for n in range(REPLICAS)
            ),
        ]
        self._port = kept_port()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for node in self._nodes:
                stack.enter_context(node)
            # The sentinel asks for replicas at once, and then every ten seconds.
            with self._nodes[0].client() as client:
                until(lambda: _replicas_of(client) == REPLICAS)
            stack.callback(_end, self._start())
            until(lambda: self._facts.get("num-slaves") == REPLICAS)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self) -> subprocess.Popen[bytes]:
        config = self._folder / "sentinel.conf"
        master = f"127.0.0.1 {self._nodes[0].port}"
        config.write_text(
            f"port {self._port}\n"
            f"sentinel monitor {SERVICE} {master} 1\n"
            f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER}\n"
        )
        program = needs_program("redis-server")
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                [program, str(config), "--sentinel"], stdout=log, stderr=log
            )

    @property
    def _facts(self) -> dict[str, Any]:
        """The sentinel's facts on the service; nothing while it does not answer."""
        once = Retry(NoBackoff(), 0)
        with (
            suppress(redis.ConnectionError, redis.ResponseError),
            redis.Redis(port=self._port, retry=once) as client,
        ):
            facts: dict[str, Any] = client.sentinel_master(SERVICE)
            return facts
        return {}

    @property
    def master(self) -> RedisServer | None:
        """The server that is the master, as the sentinel says; None if it is silent."""
        # One look at the facts: they change during a failover.
        port = self._facts.get("port")
        return next((one for one in self._nodes if one.port == port), None)

    def wait_for_replicas(self) -> None:
        """Wait until the replicas have all that the master has."""
        until(lambda: self.master)
        assert self.master is not None
        with self.master.client() as client:
            end = client.info("replication")["master_repl_offset"]
            until(lambda: _last_of_replicas(client) >= end)

    def kill_master(self) -> None:
        """Kill the master, and wait until another server is the master."""
        until(lambda: self.master)
        old = self.master
        assert old is not None
        old.kill()
        until(self._is_asked_to_promote)
        until(lambda: self.master not in {None, old})

    def _is_asked_to_promote(self) -> bool:
        """Ask the sentinel to promote a replica; return whether it knows a good one."""
        with (
            suppress(redis.ResponseError),
            redis.Redis(port=self._port, retry=Retry(NoBackoff(), 0)) as client,
        ):
            client.execute_command("SENTINEL FAILOVER", SERVICE)
            return True
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


def _last_of_replicas(client: Any) -> int:
    """Return up to where the slowest replica follows a master."""
    facts = client.info("replication")
    found = (facts[name]["offset"] for name in facts if name.startswith("slave"))
    return min(map(int, found), default=0)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
