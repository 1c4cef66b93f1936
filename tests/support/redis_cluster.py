"""A real Redis Cluster of the tests' own: three servers, and perhaps their replicas."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from support.ports import kept_port
from support.redis_server import RedisServer
from support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

NODES = 3
SLOTS = 16_384
TIMEOUT = 2_000
"""Milliseconds without an answer after which a replica takes the place of a node."""


class RedisCluster:
    """Servers that share the slots of a Cluster; ``with`` starts and ends them.

    Each has the ``options`` and a folder of its own below ``folder``. With
    ``replicas``, each has a replica, which takes its place if it dies.
    """

    def __init__(self, folder: Path, *options: str, replicas: bool = False) -> None:
        self._buses = [str(kept_port()) for _ in range(NODES * (1 + replicas))]
        if replicas:
            options += "--cluster-node-timeout", str(TIMEOUT)
            options += "--repl-diskless-sync-delay", "0"
        self._every = [
            RedisServer(
                folder / f"node{number}",
                *("--cluster-enabled", "yes", "--cluster-port", bus),
                *options,
                port=kept_port(),
            )
            for number, bus in enumerate(self._buses)
        ]
        self.nodes = self._every[:NODES]
        """The servers that are no replicas; all of them are alive."""
        self._replicas = self._every[NODES:]

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for node in self._every:
                stack.enter_context(node)
            self._meet()
            until(self._knows_itself)
            for node, replica in zip(self.nodes, self._replicas, strict=False):
                with node.client() as client, replica.client() as other:
                    name = client.execute_command("CLUSTER MYID")
                    other.execute_command("CLUSTER REPLICATE", name)
            self.wait_until_whole()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _meet(self) -> None:
        share = SLOTS // NODES + 1
        for number, node in enumerate(self._every):
            first, last = number * share, min(SLOTS, (number + 1) * share) - 1
            with node.client() as client:
                if node in self.nodes:
                    client.execute_command("CLUSTER ADDSLOTSRANGE", first, last)
                known = ("127.0.0.1", self.nodes[0].port, self._buses[0])
                client.execute_command("CLUSTER MEET", *known)

    def wait_until_whole(self) -> None:
        """Wait until all nodes say that the slots are served, and all replicas follow.

        A node that has stood still for too long has become a replica of its replica.
        """
        until(self._is_whole)

    def _knows_itself(self) -> bool:
        return all(_is_whole(node, len(self._every)) for node in self._every)

    def _is_whole(self) -> bool:
        if not self._knows_itself():
            return False
        roles = {node: _role_of(node) for node in self._every}
        self.nodes = [node for node in self._every if roles[node] == "master"]
        self._replicas = [node for node in self._every if roles[node] == "connected"]
        return (
            len(self.nodes) == NODES and len(self._replicas) == len(self._every) - NODES
        )

    def home_of(self, key: str) -> RedisServer:
        """Return the server that has a key, or would have it."""
        with self.nodes[0].client() as client:
            slot = client.execute_command("CLUSTER KEYSLOT", key)
            found = client.execute_command("CLUSTER SLOTS")
        (port,) = (one[1] for first, last, one, *_ in found if first <= slot <= last)
        return next(node for node in self._every if node.port == port)

    def promote_replica_of(self, node: RedisServer) -> None:
        """Kill a node; start it again when its replica has taken its place."""
        node.kill()
        others = [one for one in self._every if one is not node]
        until(lambda: [_role_of(one) for one in others].count("master") == NODES)
        node.start()

    def url(self, name: str) -> str:
        """Return the URL of a filter or a frontier."""
        return f"redis://127.0.0.1:{self.nodes[0].port}#{name}"


def _is_whole(node: RedisServer, nodes: int) -> bool:
    """Whether a node knows who has which slots."""
    with node.client() as client:
        state = client.execute_command("CLUSTER INFO")
    found = (state["cluster_state"], state["cluster_known_nodes"])
    return bool(found == ("ok", str(nodes)))


def _role_of(node: RedisServer) -> str:
    """Return ``master``, or the state of a replica, such as ``connected``."""
    with node.client() as client:
        role, *rest = client.role()
    return str(role if role == b"master" else rest[2], "ascii")
