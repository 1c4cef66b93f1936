"""Client: talks to the Redis of a store, and waits for it while it is away."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from functools import cache
from importlib.resources import files
from threading import Event
from time import monotonic
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
from bloomdupe.printable import logger_of

try:
    import redis
    from redis import exceptions
    from redis.backoff import NoBackoff
    from redis.connection import parse_url
    from redis.retry import Retry
    from redis.sentinel import Sentinel
except ImportError as error:
    raise ExtraMissingError(
        "the URL of a Redis needs the package redis, which is not installed:"
        " pip install 'bloomdupe[redis]'"
    ) from error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bloomdupe.store.redis.address import Address

logger = logger_of(__name__)

CONNECT_SECONDS = 5.0
"""How long a connection may take, unless the URL has ``socket_connect_timeout``."""
ANSWER_SECONDS = 30.0
"""How long an answer may take, unless the URL has ``socket_timeout``."""
PATIENCE = 120.0
"""Seconds for which a command waits for a Redis that is away or takes no changes."""
PAUSE = 0.1
"""Seconds between two attempts."""
OF_SENTINELS = ("retry", "socket_connect_timeout", "socket_timeout")
"""Options of the connections to sentinels, too."""

FOR_NOW = re.compile(
    r"(?:BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|MISCONF|NOREPLICAS|TRYAGAIN|READONLY"
    r"|UNBLOCKED)\b"
)
"""Error codes of temporary refusals."""
BEFORE_CODE = re.compile(r"(?:ERR )?Error running script .*?-(?=[A-Z]+ )")
"""Redis 6 writes this before an error code if it has refused a command of a script."""
UNREACHABLE = (
    redis.ConnectionError,
    redis.TimeoutError,
    redis.InvalidResponse,
    exceptions.ClusterError,
    exceptions.RedisClusterException,
    OSError,
)
TRANSLATED = (*UNREACHABLE, redis.ResponseError)
NOT_LET_IN = (redis.AuthenticationError, exceptions.AuthorizationError)


def lua(name: str, package: str = "bloomdupe.store.redis") -> bytes:
    """Return a Lua script of a package."""
    return (files(package) / f"{name}.lua").read_bytes()


@cache
def _sha_of(script: bytes) -> str:
    """Return the name that Redis gives to a script."""
    return hashlib.sha1(script, usedforsecurity=False).hexdigest()


class Client:
    """A connection to a server, to the master of a service, or to a Redis Cluster.

    A command is repeated until Redis has answered it, so use only commands that do
    nothing more when they come again. Without ``patience`` it is sent once. Any thread
    may use it.
    """

    def __init__(self, address: Address, patience: float | None = None) -> None:
        self.address = address
        self._patience = 0.0
        self._ending = Event()
        options: dict[str, Any] = {
            "retry": Retry(NoBackoff(), 0),
            "socket_connect_timeout": CONNECT_SECONDS,
            "socket_timeout": ANSWER_SECONDS,
        }
        try:
            self._redis: Any = self._client_with(options)
            self.facts: dict[str, Any] = self.ask("INFO")
        except (ValueError, TypeError, AttributeError) as error:  # of an option
            if isinstance(error, StoreError):
                raise
            raise SettingError(f"{address.shown}: {error}") from error
        if self.facts.get("cluster_enabled"):
            self._redis.close()
            try:
                self._redis = redis.RedisCluster.from_url(address.server, **options)
            except TRANSLATED as error:
                raise self._translated(error)[0] from error
        self._patience = PATIENCE if patience is None else patience

    def _client_with(self, options: dict[str, Any]) -> redis.Redis:
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

    def close(self) -> None:
        """Close all connections, and end all waiting."""
        self._ending.set()
        self._redis.close()

    def stop_waiting(self) -> None:
        """Wait no more for a Redis that is away: the process is to end."""
        self._ending.set()

    # Talking

    def ask(self, *words: Any) -> Any:
        """Return the answer to a command; wait while Redis is away."""
        end = 0.0
        while True:
            try:
                answer = self._redis.execute_command(*words)
            except exceptions.NoScriptError:
                raise  # to run()
            except TRANSLATED as error:
                failure, passes = self._translated(error)
                if not passes:
                    raise failure from error
                now = monotonic()
                if not end:
                    end = now + self._patience
                    if self._patience:
                        logger.warning("Waiting: %(error)s", {"error": failure})
                if now >= end or self._ending.wait(PAUSE):
                    raise failure from error
            else:
                if end:
                    logger.info(
                        "%(shown)s answers again", {"shown": self.address.shown}
                    )
                return answer

    def run(
        self, script: bytes, keys: Sequence[bytes], *arguments: bytes | str | int
    ) -> Any:
        """Return the answer of a script, which Redis may not know any more."""
        try:
            return self.ask("EVALSHA", _sha_of(script), len(keys), *keys, *arguments)
        except exceptions.NoScriptError:
            return self.ask("EVAL", script, len(keys), *keys, *arguments)

    def send(self, *words: Any) -> None:
        """Send a command once; nothing happens if Redis is away."""
        with suppress(*TRANSLATED):
            self._redis.execute_command(*words)

    # Refusals

    def check(self, *, durable: bool = True) -> None:
        """Refuse a server that throws away keys when its memory is full.

        And one that would forget all of them when it is restarted, unless they need
        not be ``durable``.
        """
        shown = self.address.shown
        policy = str(self.facts.get("maxmemory_policy", "noeviction"))
        if policy.startswith("allkeys-"):
            raise StoreMismatchError(
                f"{shown}: this Redis throws away keys when its memory is full"
                f" (maxmemory-policy {policy}), and with them what was seen; set it to"
                " noeviction (redis-cli CONFIG SET maxmemory-policy noeviction, and in"
                " redis.conf), or use another Redis",
                "maxmemory-policy",
            )
        if not durable or self.facts.get("aof_enabled"):
            return
        try:
            found = self.ask("CONFIG GET", "save")
        except StoreError:  # a service may forbid the question
            return
        if not (found.get("save") or found.get(b"save")):
            raise StoreMismatchError(
                f"{shown}: this Redis writes nothing to disk, so a restart would lose"
                " the crawl; switch its log on (redis-cli CONFIG SET appendonly yes,"
                " and in redis.conf), or use another Redis",
                "appendonly",
            )

    def free_bytes(self) -> int:
        """Return the bytes that its data may take besides what is there."""
        return max(0, self.memory - int(self.facts.get("used_memory", 0)))

    @property
    def memory(self) -> int:
        """Bytes that all data may take: the limit, or else the machine's memory."""
        limit = int(self.facts.get("maxmemory", 0))
        return limit or int(self.facts.get("total_system_memory", 0))

    def _translated(self, error: Exception) -> tuple[StoreError, bool]:
        """Return our error for one of redis-py, and whether it passes by waiting.

        It names the server and the remedy, and no password.
        """
        shown = self.address.shown
        # Redis and Valkey, also of a command in a script.
        text = BEFORE_CODE.sub("", str(error))
        forbidden = isinstance(error, (*NOT_LET_IN, exceptions.NoPermissionError))
        if forbidden or "user executing the script" in text or "ACL failure" in text:
            return StoreAccessError(
                f"{shown}: Redis refuses this user ({text}); check user and password in"
                " the URL, and the rights of the user (see bloomdupe/docs/redis.md)"
            ), False
        if isinstance(error, exceptions.ReadOnlyError) or text.startswith("READONLY"):
            return StoreAccessError(
                f"{shown}: this Redis is a replica, which takes no changes; give the"
                " address of the one that it follows"
            ), True
        if isinstance(error, exceptions.OutOfMemoryError) or text.startswith("OOM "):
            return StoreFullError(
                f"{shown}: the memory of this Redis is full; raise its maxmemory, or"
                " make room"
            ), True
        if isinstance(error, exceptions.BusyLoadingError) or FOR_NOW.match(text):
            return StoreUnreachableError(
                f"{shown}: this Redis takes no changes at the moment ({text}); look at"
                " the server"
            ), True
        if isinstance(error, UNREACHABLE):
            return StoreUnreachableError(
                f"{shown}: no Redis answers there ({text}); check that the server runs"
                " and that the URL is right"
            ), True
        if "WRONGTYPE" in text:
            return self.foreign(), False
        return StoreError(f"{shown}: Redis refuses: {text}"), False

    def foreign(self) -> StoreMismatchError:
        """Return the error for a key that is not of bloomdupe."""
        return StoreMismatchError(
            f"{self.address.shown}: a key of this name holds something else than a"
            " filter or a crawl of bloomdupe; take another name"
        )
