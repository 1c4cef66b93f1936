"""Keys: lists, sets and sorted sets that other programs keep on Redis, only read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.errors import StoreError
from bloomdupe.redis.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Key", "Keys", "Member"]

AT_ONCE = 500
"""Members per command."""

NO_KEY = "none"
"""Redis' name for the type of a key that does not exist."""


class Member(NamedTuple):
    """An element of a list or a sorted set."""

    value: bytes
    score: float = 0.0
    """0 for an element of a list."""


class Key(NamedTuple):
    """The type and the size of a key at one moment."""

    name: str
    kind: str
    """``list``, ``set``, ``zset``, ``string``, another type of Redis, or ``none``."""
    size: int
    """Number of members; 0 for a string and other types."""

    @property
    def is_there(self) -> bool:
        """Whether the key exists."""
        return self.kind != NO_KEY


class Keys(Connection):
    """Keys of other programs on Redis or a Redis Cluster. Changes nothing.

    Reads a few hundred members at a time into memory. Raises the errors of
    :class:`~bloomdupe.redis.server.Server`, and :class:`~bloomdupe.errors.StoreError`
    if members change while they are read.
    """

    def key(self, name: str) -> Key:
        """Return the type and the size of a key."""
        with self.in_our_words():
            kind = self._ask("TYPE", name).decode()
            counts = {"list": "LLEN", "set": "SCARD", "zset": "ZCARD"}
            size = int(self._ask(counts[kind], name)) if kind in counts else 0
        return Key(name, kind, size)

    def ordered(self, key: Key, *, from_end: bool = False) -> Iterator[Member]:
        """Yield the members of a list or a sorted set, from one end to the other.

        Members of a sorted set come by rising score. ``from_end`` reverses the order.
        """
        for start in range(0, key.size, AT_ONCE):
            some = self._portion(key, start, from_end=from_end)
            if self.key(key.name) != key:
                raise self.changed(key)
            yield from some

    def _portion(self, key: Key, start: int, *, from_end: bool) -> list[Member]:
        last = min(start + AT_ONCE, key.size) - 1
        with self.in_our_words():
            if key.kind == "list" and from_end:
                found = self._ask("LRANGE", key.name, -last - 1, -start - 1)
                return [Member(value) for value in reversed(found)]
            if key.kind == "list":
                return [
                    Member(value)
                    for value in self._ask("LRANGE", key.name, start, last)
                ]
            client = self._client_of(key.name)
            asked = client.zrevrange if from_end else client.zrange
            scored: Any = asked(key.name, start, last, withscores=True)
            return [Member(value, score) for value, score in scored]

    def members(self, name: str) -> Iterator[bytes]:
        """Yield the members of a set in no order, some perhaps more than once."""
        cursor = 0
        while True:
            with self.in_our_words():
                found: Any = self._client_of(name).sscan(name, cursor, count=AT_ONCE)
            cursor, some = found
            yield from some
            if not cursor:
                return

    def has(self, name: str, member: str) -> bool:
        """Whether a set has this member."""
        with self.in_our_words():
            return bool(self._client_of(name).sismember(name, member))

    def changed(self, key: Key) -> StoreError:
        """Return the error for a key that changes while it is read."""
        return StoreError(
            f"{self.address.shown}: the key {key.name!r} has changed meanwhile, so"
            " a program still uses it. Stop all such programs, and import it into a"
            " JOBDIR without a job"
        )

    def _ask(self, command: str, key: str, *more: int) -> Any:  # noqa: ANN401 - many
        # Not by the methods: some of them convert the answer to other types.
        ask: Any = self._client_of(key).execute_command
        return ask(command, key, *more)
