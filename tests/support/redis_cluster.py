"""A real Redis Cluster of the tests' own: three servers that share its slots."""

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


class RedisCluster:
    """Servers with these ``options``, each in a folder below ``folder``.

    ``with`` starts and ends them.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        self._buses = [str(kept_port()) for _ in range(NODES)]
        self.nodes = [
            RedisServer(
                folder / f"node{number}",
                *("--cluster-enabled", "yes", "--cluster-port", bus),
                *options,
                port=kept_port(),
            )
            for number, bus in enumerate(self._buses)
        ]

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for node in self.nodes:
                stack.enter_context(node)
            self._meet()
            until(lambda: all(map(_is_whole, self.nodes)))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _meet(self) -> None:
        share = SLOTS // NODES + 1
        for number, node in enumerate(self.nodes):
            first, last = number * share, min(SLOTS, (number + 1) * share) - 1
            with node.client() as client:
                client.execute_command("CLUSTER ADDSLOTSRANGE", first, last)
                known = ("127.0.0.1", self.nodes[0].port, self._buses[0])
                client.execute_command("CLUSTER MEET", *known)

    def url(self, name: str) -> str:
        """Return the URL of a filter or a frontier."""
        return f"redis://127.0.0.1:{self.nodes[0].port}#{name}"


def _is_whole(node: RedisServer) -> bool:
    """Whether a node knows who has which slots."""
    with node.client() as client:
        state = client.execute_command("CLUSTER INFO")
    found = (state["cluster_state"], state["cluster_known_nodes"])
    return bool(found == ("ok", str(NODES)))
