"""Server: a connection to Redis, its scripts, and its errors in our words."""

from __future__ import annotations

from contextlib import contextmanager
from copy import copy
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

from bloomdupe.errors import (
    ExtraMissingError,
    SettingError,
    StoreAccessError,
    StoreError,
    StoreFullError,
    StoreMismatchError,
    StoreUnreachableError,
)

try:
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry
except ImportError as error:
    raise ExtraMissingError(
        "a filter on Redis needs the package redis, which is not installed:"
        " pip install 'bloomdupe[redis]'"
    ) from error

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bloomdupe.redis.address import Address

__all__ = ["Server"]

CONNECT_SECONDS = 5.0
"""How long a connection may take, unless the URL has ``socket_connect_timeout``."""

ANSWER_SECONDS = 30.0
"""How long an answer may take, unless the URL has ``socket_timeout``."""

SCRIPTS = {
    "create": ("create",),
    "add": ("layers", "mark", "add"),
    "contains": ("layers", "contains"),
    "grow": ("grow",),
    "unite": ("unite",),
    "clear": ("clear",),
    "present": ("present",),
    "offer": ("layers", "mark", "queue", "offer"),
    "take": ("queue", "take"),
    "renew": ("queue", "renew"),
    "lease": ("queue", "owner", "lease"),
    "settle": ("queue", "owner", "settle"),
    "counts": ("queue", "counts"),
}
"""The files that each script consists of."""


class Server:
    """A Redis server, or a Redis Cluster, that keeps a filter or a frontier.

    Nothing is ever sent twice: of a batch whose answer was lost nobody knows whether it
    was added, and one that is added again finds all its keys seen. So redis-py's own
    retries are off, and the caller is told.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self._client = self._connected()
        self._scripts = {
            name: self._client.register_script(
                "\n".join(_source(part) for part in parts)
            )
            for name, parts in SCRIPTS.items()
        }

    def _connected(self) -> redis.Redis:
        options: dict[str, Any] = {
            "retry": Retry(NoBackoff(), 0),
            "socket_connect_timeout": CONNECT_SECONDS,
            "socket_timeout": ANSWER_SECONDS,
        }
        try:
            client = redis.Redis.from_url(self.address.server, **options)
        except ValueError as error:
            raise SettingError(f"{self.address.shown}: {error}") from error
        with self._in_our_words():
            self.facts: dict[str, Any] = client.info()
        if self.facts.get("cluster_enabled"):
            client.close()
            with self._in_our_words():
                # It offers the same methods, but is no subclass.
                client = cast(
                    "redis.Redis",
                    redis.RedisCluster.from_url(self.address.server, **options),
                )
        self._check_eviction()
        return client

    def _check_eviction(self) -> None:
        """Refuse a server that throws keys away, which would forget what is seen."""
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

    def run(
        self, script: str, *arguments: bytes | str | float, scratch: str = ""
    ) -> Any:  # noqa: ANN401 - each script returns something else
        """Run a script on the filter, and return what it returns."""
        keys = [self.address.head, *([scratch] if scratch else [])]
        with self._in_our_words():
            return self._scripts[script](keys, arguments)

    def fields(self) -> dict[bytes, bytes]:
        """Return what the filter's head holds; nothing if there is none."""
        with self._in_our_words():
            return cast("dict[bytes, bytes]", self._client.hgetall(self.address.head))

    def values(self, names: Sequence[str]) -> list[bytes | None]:
        """Return the values of keys; None for one that is not there."""
        with self._in_our_words():
            return cast("list[bytes | None]", self._client.mget(names))

    def at(self, address: Address) -> Server:
        """Return the same server, with another name on it; only this one is closed."""
        other = copy(self)
        other.address = address
        return other

    def set_field(self, name: str, value: str) -> None:
        """Set a field of the head."""
        with self._in_our_words():
            self._client.hset(self.address.head, name, value)

    def entries(self, name: str, after: bytes, count: int) -> list[tuple[bytes, Any]]:
        """Return entries of the stream ``name`` of the head: number, and what is in it.

        They are the oldest ``count`` of those after an entry with the number ``after``.
        """
        key = f"{self.address.head}:{name}"
        with self._in_our_words():
            found = self._client.xrange(key, b"(" + after, "+", count)
            return cast("list[tuple[bytes, Any]]", found)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    @contextmanager
    def _in_our_words(self) -> Iterator[None]:
        """Turn redis-py's errors into ours, which say where, and what helps."""
        try:
            yield
        except (
            redis.AuthenticationError,
            redis.exceptions.AuthorizationError,
        ) as error:
            raise self._access(error) from error
        except (
            redis.ConnectionError,
            redis.TimeoutError,
            redis.InvalidResponse,
            redis.exceptions.ClusterError,
            redis.exceptions.RedisClusterException,
        ) as error:
            raise StoreUnreachableError(
                f"{self.address.shown}: no Redis answers there ({error}); what was sent"
                " last has happened wholly or not at all. Look whether the server runs"
                " and the URL is right, and try again"
            ) from error
        except redis.ResponseError as error:
            raise self._refusal(error) from error

    def _refusal(self, error: redis.ResponseError) -> StoreError:
        """Return our error for one that the server has sent."""
        shown = self.address.shown
        text = str(error)
        if isinstance(error, redis.exceptions.OutOfMemoryError):
            return StoreFullError(
                f"{shown}: the memory of this Redis is full; what was sent last has not"
                " happened. Raise its maxmemory, or make room"
            )
        if text.startswith("GONE"):
            return StoreError(
                f"{shown} is gone. Somebody has deleted it, or Redis was started"
                " without its data; restore them"
            )
        if "WRONGTYPE" in text:
            return StoreMismatchError(
                f"{shown}: the key {self.address.head} holds something else than a"
                " filter of bloomdupe; take another name for the filter"
            )
        forbidden = isinstance(error, redis.exceptions.NoPermissionError)
        if forbidden or "user executing the script" in text:
            return self._access(error)
        if isinstance(error, redis.ReadOnlyError):
            return StoreAccessError(
                f"{shown}: this Redis is a replica, which takes no changes; give the"
                " address of the one that it follows"
            )
        return StoreError(f"{shown}: Redis refuses: {text}")

    def _access(self, error: Exception) -> StoreAccessError:
        return StoreAccessError(
            f"{self.address.shown}: Redis lets us not in ({error}); check user and"
            " password in the URL, and what the user may do (see"
            " bloomdupe/redis/README.md)"
        )


def _source(name: str) -> str:
    return (files("bloomdupe.redis") / f"{name}.lua").read_text(encoding="utf-8")
