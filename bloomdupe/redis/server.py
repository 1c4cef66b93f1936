"""Server: a Redis that keeps a filter, and the scripts that change it."""

from __future__ import annotations

from copy import copy
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

from bloomdupe.errors import StoreMismatchError, StoreUnreachableError
from bloomdupe.redis.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bloomdupe.redis.address import Address

__all__ = ["Server"]

REPLICATION_MILLISECONDS = 1_000
"""Seconds that replicas may take to confirm a write."""

SCRIPTS = {
    "create": ("create",),
    "add": ("layers", "mark", "add"),
    "contains": ("layers", "contains"),
    "grow": ("grow",),
    "unite": ("unite",),
    "clear": ("clear",),
    "present": ("present",),
    "keep_cookies": ("keep_cookies",),
    "new_cookies": ("new_cookies",),
    "import": ("import",),
    "offer": ("layers", "mark", "queue", "offer"),
    "take": ("queue", "take"),
    "renew": ("queue", "renew"),
    "lease": ("queue", "owner", "lease"),
    "settle": ("queue", "owner", "put_out", "about", "failed", "settle"),
    "leave": ("queue", "owner", "put_out", "about", "leave"),
    "counts": ("queue", "counts"),
    "pending": ("queue", "pending"),
    "output": ("queue", "output"),
    "forget": ("queue", "forget"),
    "workers": ("workers",),
    "state": ("queue", "state"),
    "hosts": ("queue", "hosts"),
    "states": ("queue", "states"),
    "pending_of": ("queue", "pending_of"),
    "handed_out": ("queue", "handed_out"),
    "failures": ("queue", "failures"),
    "requeue": ("queue", "requeue"),
    "drop": ("queue", "drop"),
    "import_failed": ("queue", "import_failed"),
}
"""The files that each script consists of."""


class Server(Connection):
    """A Redis server, or a Redis Cluster, that keeps a filter or a frontier.

    No command is sent twice by itself. If the answer to a batch is lost, its keys may
    have been added or not, and in a batch that is added again all of them would count
    as seen. So redis-py's own retries are off, and the caller gets the error.
    """

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._check_eviction()
        self._scripts = {
            name: self._client.register_script(
                "\n".join(_source(part) for part in parts)
            )
            for name, parts in SCRIPTS.items()
        }

    def _check_eviction(self) -> None:
        """Refuse a server that evicts keys, because seen keys would be forgotten."""
        policy = str(self.facts.get("maxmemory_policy", "noeviction"))
        if policy.startswith("allkeys-"):
            raise StoreMismatchError(
                f"{self.address.shown}: this Redis throws away keys when its memory is"
                f" full (maxmemory-policy {policy}), and with them what was seen; set"
                " it to noeviction (redis-cli CONFIG SET maxmemory-policy noeviction,"
                " and in redis.conf), or use another Redis",
                "maxmemory-policy",
            )

    @property
    def memory(self) -> int:
        """Bytes that the data may take: the limit, or else the machine's memory."""
        limit = int(self.facts.get("maxmemory", 0))
        return limit or int(self.facts.get("total_system_memory", 0))

    def memory_used(self) -> tuple[int, int]:
        """Return the bytes that all data takes, and the limit; 0 means no limit.

        Of a Redis Cluster, the sums over all nodes that are not replicas.
        """
        where: dict[str, Any] = {}
        if self.facts.get("cluster_enabled"):
            where = {"target_nodes": "primaries"}
        with self._in_our_words():
            found: dict[str, Any] = self._client.info("memory", **where)
        nodes = list(found.values()) if where else [found]
        if where and "used_memory" in found:  # there is only one
            nodes = [found]
        return (
            sum(int(node["used_memory"]) for node in nodes),
            sum(int(node.get("maxmemory", 0)) for node in nodes),
        )

    def run(
        self, script: str, *arguments: bytes | str | float, scratch: str = ""
    ) -> Any:  # noqa: ANN401 - each script returns something else
        """Run a script on the filter, and return its answer."""
        keys = [self.address.head, *([scratch] if scratch else [])]
        with self._in_our_words():
            return self._scripts[script](keys, arguments)

    def fields(self) -> dict[bytes, bytes]:
        """Return the fields of the filter's head; empty if the head does not exist."""
        with self._in_our_words():
            return cast("dict[bytes, bytes]", self._client.hgetall(self.address.head))

    def values(self, names: Sequence[str]) -> list[bytes | None]:
        """Return the values of keys; None for a missing key."""
        with self._in_our_words():
            return cast("list[bytes | None]", self._client.mget(names))

    def at(self, address: Address) -> Server:
        """Return the same server with another name; close the original only."""
        other = copy(self)
        other.address = address
        return other

    @property
    def node(self) -> str:
        """Which node of a Cluster keeps the filter; '' for a server by itself."""
        if not self.facts.get("cluster_enabled"):
            return ""
        client: Any = self._client
        return str(client.get_node_from_key(self.address.head).name)

    def replicate(self, replicas: int) -> None:
        """Wait until so many replicas of the node have confirmed all writes.

        Raises :class:`~bloomdupe.errors.StoreUnreachableError` if they do not in time.
        """
        client: Any = self._client
        where = {}
        if self.facts.get("cluster_enabled"):
            where["target_nodes"] = client.get_node_from_key(self.address.head)
        with self._in_our_words():
            # WAIT covers only the writes of its own connection, which may be new.
            client.hset(f"{self.address.head}:state", "replicated", replicas)
            have = client.execute_command(
                "WAIT", replicas, REPLICATION_MILLISECONDS, **where
            )
        if have < replicas:
            raise StoreUnreachableError(
                f"{self.address.shown}: {have} of {replicas} replicas have what was"
                " sent last (BLOOMDUPE_REDIS_REPLICAS); look whether they run"
            )

    def set_field(self, name: str, value: str) -> None:
        """Set a field of the head."""
        with self._in_our_words():
            self._client.hset(self.address.head, name, value)

    def keys(self, pattern: str, at_once: int) -> Iterator[bytes]:
        """Yield the names of all keys that match a pattern, some perhaps twice.

        Of a Redis Cluster, the keys of all nodes. Redis looks at so many keys
        ``at_once``.
        """
        with self._in_our_words():
            yield from self._client.scan_iter(match=pattern, count=at_once)

    def remove(self, keys: Sequence[bytes]) -> int:
        """Remove keys, and return how many were there."""
        with self._in_our_words():
            return self._client.unlink(*keys)

    def _wrong_type(self) -> StoreMismatchError:
        return StoreMismatchError(
            f"{self.address.shown}: the key {self.address.head} holds something else"
            " than a filter of bloomdupe; take another name for the filter"
        )


def _source(name: str) -> str:
    return (files("bloomdupe.redis") / f"{name}.lua").read_text(encoding="utf-8")
