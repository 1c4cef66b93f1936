"""Connection: a connection to Redis or a Redis Cluster, with errors of our own."""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from bloomdupe.errors import (
    ExtraMissingError,
    SettingError,
    StoreAccessError,
    StoreError,
    StoreFullError,
    StoreUnreachableError,
)

try:
    import redis
    from redis.backoff import NoBackoff
    from redis.connection import parse_url
    from redis.retry import Retry
    from redis.sentinel import Sentinel, SentinelManagedConnection
except ImportError as error:
    raise ExtraMissingError(
        "the URL of a Redis needs the package redis, which is not installed:"
        " pip install 'bloomdupe[redis]'"
    ) from error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bloomdupe.store.redis.address import Address

__all__ = ["Connection", "Interruptions", "NoScriptError"]

CONNECT_SECONDS = 5.0
"""How long a connection may take, unless the URL has ``socket_connect_timeout``."""

ANSWER_SECONDS = 30.0
"""How long an answer may take, unless the URL has ``socket_timeout``."""

OF_SENTINELS = ("retry", "socket_connect_timeout", "socket_timeout")
"""Options of the connections to sentinels, too."""

FOR_NOW = re.compile(
    r"(?:BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|MISCONF|NOREPLICAS|TRYAGAIN)\b"
)
"""Error codes of temporary refusals."""

BEFORE_CODE = re.compile(r"Error running script .*?-(?=[A-Z]+ )")
"""Redis 6 writes this before an error code if it has refused a command of a script."""

NoScriptError = redis.exceptions.NoScriptError
"""The server does not know a script, which has not run."""

WITHOUT_CODE = (
    redis.exceptions.AskError,  # or MovedError
    redis.exceptions.TryAgainError,
    NoScriptError,
)
"""Temporary refusals of which redis-py leaves out the code."""

NOT_LET_IN = (redis.AuthenticationError, redis.exceptions.AuthorizationError)
TRANSLATED = (
    redis.ConnectionError,
    redis.TimeoutError,
    redis.InvalidResponse,
    redis.ResponseError,
    redis.exceptions.ClusterError,
    redis.exceptions.RedisClusterException,
)


class Interruptions:
    """Counts the interruptions after which a Redis may hold older data.

    A server that was killed, or was replaced by its replica, may lose its last writes.
    It does not report this, but the client then needs a new connection. So no
    connection is replaced silently: the first command on the new connection raises an
    error, and the caller may try again.
    """

    def __init__(self) -> None:
        self.count = 0
        self._connected: set[tuple[object, ...]] = set()
        self._expected: set[tuple[object, ...]] = set()

    def happened(self) -> None:
        """Count an error; the new connections that follow it are expected."""
        self.count += 1
        self._expected = set(self._connected)

    def made_up_for(self) -> None:
        """Expect no more new connections: all that may be lost was sent again."""
        self._expected.clear()

    def surprises(self, connection: Any) -> bool:  # noqa: ANN401 - redis-py has several
        """Whether a connection replaces a lost connection that was not reported yet."""
        server = tuple(
            getattr(connection, name, None) for name in ("host", "port", "path")
        )
        if isinstance(connection, SentinelManagedConnection):
            # The server of a service, which may be another one after a failover.
            server = ()
        if server in self._connected and server not in self._expected:
            self.happened()
            return True
        self._connected.add(server)
        self._expected.discard(server)
        return False


class Connection:
    """A connection to a Redis server, or to the nodes of a Redis Cluster.

    No command is sent twice by itself: redis-py's own retries are off, and the caller
    gets an error if an answer was lost.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self.interruptions = Interruptions()
        self._watched = False
        self._cluster: Any = None
        self._connect()

    def watch(self) -> None:
        """Raise an error before the first use of a connection that replaces another."""
        self._watched = True

    def _connect(self) -> None:
        options: dict[str, Any] = {
            "retry": Retry(NoBackoff(), 0),
            "socket_connect_timeout": CONNECT_SECONDS,
            "socket_timeout": ANSWER_SECONDS,
        }
        options["redis_connect_func"] = self._on_connect
        try:
            self._one = self._client_with(options)
        except ValueError as error:
            raise SettingError(f"{self.address.shown}: {error}") from error
        with self.in_our_words():
            self.facts: dict[str, Any] = self._one.info()
        if self.facts.get("cluster_enabled"):
            self._one.close()
            with self.in_our_words():
                self._cluster = redis.RedisCluster.from_url(
                    self.address.server,
                    **{**options, "redis_connect_func": self._greet},
                )
            # Nothing was changed by INFO, and by what redis-py asks the Cluster.
            self._cluster.disconnect_connection_pools()
            self.interruptions = Interruptions()

    def _client_with(self, options: dict[str, Any]) -> redis.Redis:
        """Return a client for one server, or for the server that sentinels name."""
        if not self.address.sentinels:
            return redis.Redis.from_url(self.address.server, **options)
        # Functions without types.
        parse, by_sentinels = cast("tuple[Any, Any]", (parse_url, Sentinel))
        options |= parse(self.address.server)
        del options["host"]
        some = {name: options[name] for name in OF_SENTINELS}
        sentinels = by_sentinels(self.address.sentinels, sentinel_kwargs=some)
        master = sentinels.master_for(self.address.service, **options)
        return cast("redis.Redis", master)

    def _on_connect(self, connection: Any) -> None:  # noqa: ANN401 - of several classes
        connection.on_connect()
        self._greet(connection)

    def _greet(self, connection: Any) -> None:  # noqa: ANN401 - likewise
        if self.interruptions.surprises(connection) and self._watched:
            raise redis.ConnectionError("the connection was lost")

    def _client_of(self, key: str) -> redis.Redis:
        """Return the client for the server that has a key."""
        if self._cluster is None:
            return self._one
        node = self._cluster.get_node_from_key(key)
        return cast("redis.Redis", self._cluster.get_redis_connection(node))

    def _find_nodes(self) -> None:
        """Ask a Cluster for its nodes: a replica may have taken the place of one."""
        if self._cluster is not None:
            with suppress(*TRANSLATED):
                self._cluster.nodes_manager.initialize()

    def close(self) -> None:
        """Close the connection."""
        self._one.close()
        if self._cluster is not None:
            self._cluster.close()

    @contextmanager
    def in_our_words(self) -> Iterator[None]:
        """Turn redis-py's errors into ours, which name the server and the remedy."""
        try:
            yield
        except TRANSLATED as error:
            self._find_nodes()
            self.interruptions.happened()
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> StoreError:
        """Return our error for an error of redis-py."""
        if isinstance(error, NOT_LET_IN):
            return self._access(str(error))
        # If a Cluster is down, the nodes that are up answer so.
        down = isinstance(error, redis.exceptions.ClusterError)
        if isinstance(error, redis.ResponseError) and not down:
            return self._refusal(error)
        return StoreUnreachableError(
            f"{self.address.shown}: no Redis answers there ({error}); the last"
            " command took effect wholly or not at all. Check that the server runs and"
            " that the URL is right, and try again"
        )

    def _refusal(self, error: redis.ResponseError) -> StoreError:
        """Return our error for an error that the server has sent."""
        shown = self.address.shown
        text = BEFORE_CODE.sub("", str(error))
        if isinstance(error, WITHOUT_CODE) or FOR_NOW.match(text):
            return StoreUnreachableError(
                f"{shown}: this Redis takes no changes at the moment ({text}); the last"
                " command did nothing. Look at the server, and try again"
            )
        full = isinstance(error, redis.exceptions.OutOfMemoryError)
        if full or text.startswith("OOM "):
            return StoreFullError(
                f"{shown}: the memory of this Redis is full; the last command did"
                " nothing. Raise its maxmemory, or make room"
            )
        if text.startswith("GONE"):  # our scripts say so
            return StoreError(
                f"{shown} is gone. It was deleted, or Redis was started"
                " without its data; restore them"
            )
        if "WRONGTYPE" in text:
            return self._wrong_type()
        forbidden = isinstance(error, redis.exceptions.NoPermissionError)
        # Redis and Valkey, of a command in a script.
        forbidden |= "user executing the script" in text or "ACL failure" in text
        if forbidden:
            return self._access(text)
        if isinstance(error, redis.ReadOnlyError) or text.startswith("READONLY "):
            return StoreAccessError(
                f"{shown}: this Redis is a replica, which takes no changes; give the"
                " address of the one that it follows"
            )
        return StoreError(f"{shown}: Redis refuses: {text}")

    def _wrong_type(self) -> StoreError:
        """Return our error for a key that holds a value of another type."""
        return StoreError(
            f"{self.address.shown}: a key holds a value of another type than before;"
            " another program changes it"
        )

    def _access(self, text: str) -> StoreAccessError:
        return StoreAccessError(
            f"{self.address.shown}: Redis refuses this user ({text}); check user and"
            " password in the URL, and the rights of the user (see"
            " bloomdupe/docs/redis.md)"
        )
