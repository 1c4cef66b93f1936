"""RedisBatch: the writes of a commit, collected as calls of its script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.store.format import COOKIES, EXACT, checksum, successor
from bloomdupe.store.participant import Batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bloomdupe.store.participant import Change
    from bloomdupe.store.redis.crawl_reader import CrawlKeys

MOST = 2_000
"""Arguments of one call in the script: Lua's stack holds 8,000."""


class RedisBatch(Batch):
    """What a commit writes to one partition."""

    def __init__(self, keys: CrawlKeys, partition: int) -> None:
        self._keys = keys
        self._partition = partition
        self._words: list[bytes] = []
        self._changed: set[bytes] = set()
        self.cleared: set[bytes] = set()
        """Tables of which nothing older is left."""

    def change(self, table: bytes, changes: Iterable[Change]) -> None:
        """Store values, each after its sum, and remove records, if they are there."""
        last = dict(changes)
        self._call(b"HDEL", table, [key for key, one in last.items() if one is None])
        puts: list[bytes] = []
        for key, value in last.items():
            if value is not None:
                puts += (key, checksum(table, key, value) + value)
        self._call(b"HSET", table, puts)

    def add_exact(self, identities: Iterable[bytes]) -> None:
        """Store exact identities of keys."""
        self._call(b"SADD", EXACT, list(identities))

    def clear(self, *tables: bytes) -> None:
        """Remove all records of these tables."""
        for table in tables:
            self._words += words(b"DEL", self._keys.table(self._partition, table))
        self.cleared.update(tables)

    def replace(self, table: bytes, gone: list[bytes], new: dict[bytes, bytes]) -> None:
        """Remove and store records."""
        bounds: list[bytes] = []
        for key in gone:
            bounds += (b"[" + key, b"(" + successor(key))
        members: list[bytes] = []
        for key, value in new.items():
            members += (b"0", key + value)
        self._call(b"CUT", table, bounds)
        self._call(b"ZADD", table, members)

    def add_line(self, fields: Sequence[bytes]) -> None:
        """Add a line to the output of the crawl: its fields and their values."""
        self._words += words(b"XADD", self._keys.output, b"*", *fields)

    def arguments(self) -> list[bytes]:
        """Return the calls, as arguments of the script."""
        if COOKIES in self._changed | self.cleared:
            more = words(b"HINCRBY", self._keys.head, b"cookies", b"1")
            return [*self._words, *more]
        return self._words

    def _call(self, call: bytes, table: bytes, values: list[bytes]) -> None:
        key = self._keys.table(self._partition, table)
        for at in range(0, len(values), MOST):
            self._words += words(call, key, *values[at : at + MOST])
            self._changed.add(table)


def words(call: bytes, key: bytes, *arguments: bytes) -> Iterator[bytes]:
    """Yield a call as arguments of the script."""
    yield from (call, key, b"%d" % len(arguments))
    yield from arguments
