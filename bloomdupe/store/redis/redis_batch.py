"""RedisBatch: the writes of a commit, collected as calls of its script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.store.batch import Batch
from bloomdupe.store.format import COOKIES, EXACT, checksum, successor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bloomdupe.store.batch import Change
    from bloomdupe.store.redis.crawl_keys import CrawlKeys

MOST = 2_000
"""Arguments of one call in the script: Lua's stack holds 8,000."""


class RedisBatch(Batch):
    """What a commit writes to one partition."""

    def __init__(self, keys: CrawlKeys, partition: int) -> None:
        self._keys = keys
        self._partition = partition
        self._calls: list[tuple[bytes, bytes, list[bytes]]] = []
        self._changed: dict[bytes, dict[bytes, bytes | None]] = {}
        """By table that is a hash, the last change of each record."""
        self._others: list[bytes] = []
        """Calls that concern no table, as arguments of the script."""
        self.cleared: set[bytes] = set()
        """Tables of which nothing older is left."""

    def change(self, table: bytes, changes: Iterable[Change]) -> None:
        """Store values, each after its sum, and remove records, if they are there."""
        changed = self._changed.setdefault(table, {})
        for key, value in changes:
            changed[key] = (
                None if value is None else checksum(table, key, value) + value
            )

    def add_exact(self, identities: Iterable[bytes]) -> None:
        """Store exact identities of keys."""
        self._calls.append((b"SADD", EXACT, list(identities)))

    def clear(self, *tables: bytes) -> None:
        """Remove all records of these tables."""
        for table in tables:
            self._changed.pop(table, None)
            self._calls.append((b"DEL", table, []))
            self.cleared.add(table)

    def replace(self, table: bytes, gone: list[bytes], new: dict[bytes, bytes]) -> None:
        """Remove and store records."""
        bounds: list[bytes] = []
        for key in gone:
            bounds += (b"[" + key, b"(" + successor(key))
        members: list[bytes] = []
        for key, value in new.items():
            members += (b"0", key + value)
        self._calls += (b"CUT", table, bounds), (b"ZADD", table, members)

    def add_line(self, fields: Sequence[bytes]) -> None:
        """Add a line to the output of the crawl: its fields and their values."""
        self._others += words(b"XADD", self._keys.output, b"*", *fields)

    def arguments(self) -> Iterator[bytes]:
        """Yield the calls, as arguments of the script."""
        for call, table, values in self._calls:
            yield from self._portions(call, table, values)
        for table, changed in self._changed.items():
            gone = [key for key, value in changed.items() if value is None]
            yield from self._portions(b"HDEL", table, gone)
            puts: list[bytes] = []
            for key, value in changed.items():
                if value is not None:
                    puts += (key, value)
            yield from self._portions(b"HSET", table, puts)
        if COOKIES in self.cleared or self._changed.get(COOKIES):
            yield from words(b"HINCRBY", self._keys.head, b"cookies", b"1")
        yield from self._others

    def _portions(
        self, call: bytes, table: bytes, values: list[bytes]
    ) -> Iterator[bytes]:
        key = self._keys.table(self._partition, table)
        if call == b"DEL":
            yield from words(call, key)
        for at in range(0, len(values), MOST):
            yield from words(call, key, *values[at : at + MOST])


def words(call: bytes, key: bytes, *arguments: bytes) -> Iterator[bytes]:
    """Yield a call as arguments of the script."""
    yield from (call, key, b"%d" % len(arguments))
    yield from arguments
