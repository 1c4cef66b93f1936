"""Keys: lists, sets and sorted sets that other programs keep on Redis, only read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.errors import StoreMismatchError
from bloomdupe.store.redis.client import Client

if TYPE_CHECKING:
    from collections.abc import Iterator

AT_ONCE = 500
"""Members per command."""
COUNTS = {"list": "LLEN", "set": "SCARD", "zset": "ZCARD"}


class Keys(Client):
    """Keys of other programs on Redis; some hundred members at a time in memory."""

    def kind(self, name: str) -> str:
        """Return Redis' name for the type of a key; ``none`` if it does not exist."""
        return str(self.ask("TYPE", name).decode())

    def size(self, name: str) -> int:
        """Count the members of a key; 0 if it has none."""
        kind = self.kind(name)
        return int(self.ask(COUNTS[kind], name)) if kind in COUNTS else 0

    def ordered(self, name: str, *, from_end: bool = False) -> Iterator[bytes]:
        """Yield the members of a sorted set by rising score, or those of a list.

        ``from_end`` reverses the order of a list.
        """
        is_list = self.kind(name) == "list"
        command = "LRANGE" if is_list else "ZRANGE"
        for start in range(0, self.size(name), AT_ONCE):
            some = start, start + AT_ONCE - 1
            if is_list and from_end:
                some = -some[1] - 1, -start - 1
            found = self.ask(command, name, *some)
            yield from reversed(found) if is_list and from_end else found

    def members(self, name: str) -> Iterator[bytes]:
        """Yield the members of a set in no order, some perhaps more than once."""
        cursor: Any = 0
        while True:
            cursor, some = self.ask("SSCAN", name, cursor, "COUNT", AT_ONCE)
            yield from some
            if not cursor:
                return

    def has(self, name: str, member: str) -> bool:
        """Whether a set has this member."""
        return bool(self.ask("SISMEMBER", name, member))

    def foreign(self) -> StoreMismatchError:
        """Return the error for a key of another type than its command expects."""
        return StoreMismatchError(
            f"{self.address.shown}: a key is of another type than its setting says;"
            " check the names of the keys in the settings"
        )
