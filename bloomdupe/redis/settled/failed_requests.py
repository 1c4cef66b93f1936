"""Failed requests of a shared frontier: as settlements change them, and as stored."""

from __future__ import annotations

from collections import Counter
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.redis.server import AT_ONCE, Call

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bloomdupe.redis.server import Server, Talk

__all__ = [
    "MARK_BYTES",
    "NOT_PENDING",
    "FailedKeys",
    "FailedRequest",
    "StoredFailure",
    "read_failures",
]

MARK_BYTES = 8
"""Bytes at the beginning of a key that requests with the same URL share."""
NOT_PENDING = b"-"
"""In the place of a record: the request failed before, and is not pending any more."""
_HEAD = Struct("<I?")


class FailedRequest(NamedTuple):
    """A request that failed, or that succeeded after it had failed."""

    key: bytes
    """Identifies it. Begins with 8 bytes that depend on its URL alone."""
    record: bytes
    """Its description, or ``NOT_PENDING``; nothing: it has succeeded and is removed."""
    most: int
    """Highest number of failed requests in a partition; the oldest are removed."""


class StoredFailure(NamedTuple):
    """A failed request as a partition stores it."""

    partition: int
    key: bytes
    times: int
    """Number of its failures."""
    waiting: bool
    """Whether it is pending again, or in progress."""
    record: bytes
    """Its description."""


def read_failures(server: Server, partition: int) -> Talk[list[StoredFailure]]:
    """Return the failed requests of the partition on this server, in no order."""
    found: dict[bytes, StoredFailure] = {}
    cursor: bytes | int = 0
    while True:
        cursor, *some = yield Call(server, "failures", (cursor, AT_ONCE))
        for key, entry in zip(some[::2], some[1::2], strict=True):
            times, waiting = _HEAD.unpack_from(entry)
            record = entry[_HEAD.size :]
            found[key] = StoredFailure(partition, key, times, waiting, record)
        if not int(cursor):
            return list(found.values())


class FailedKeys:
    """The keys of a partition's failed requests, for the owner of the partition.

    It knows them from the moment when it took the partition, so it need not ask Redis
    for each page. The keys of failures may be among them that Redis has lost since, or
    that another worker has removed because there were too many.
    """

    def __init__(self) -> None:
        self._keys: dict[bytes, None] = {}
        """In the order of their failures."""
        self._marks = Counter[bytes]()

    def has_mark(self, mark: bytes) -> bool:
        """Whether a key begins so. Another thread may call this."""
        return self._marks[mark] > 0

    def begin(self, keys: Iterable[bytes]) -> None:
        """Begin with these keys, the oldest first."""
        self._keys = dict.fromkeys(keys)
        self._marks = Counter(key[:MARK_BYTES] for key in self._keys)

    def change(self, failed: FailedRequest) -> None:
        """Make a change that a settlement has made."""
        if failed.record != NOT_PENDING:
            self._remove(failed.key)
        if failed.record not in (b"", NOT_PENDING):
            self._keys[failed.key] = None
            self._marks[failed.key[:MARK_BYTES]] += 1
        while len(self._keys) > failed.most:
            self._remove(next(iter(self._keys)))

    def _remove(self, key: bytes) -> None:
        if key in self._keys:
            del self._keys[key]
            mark = key[:MARK_BYTES]
            self._marks[mark] -= 1
            if not self._marks[mark]:
                del self._marks[mark]
