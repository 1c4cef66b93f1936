"""RedisStore: the contract of a store, for one partition of a crawl on Redis."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bloomdupe.errors import NotOwnerError, StoreDamagedError, StoreError
from bloomdupe.store.format import (
    BLOCK_KEY,
    BLOCKS,
    COOKIES,
    META,
    QUEUE,
    REQUEST_KEY_BYTES,
    meta_records,
)
from bloomdupe.store.snapshot import Snapshot
from bloomdupe.store.store import Part, Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bloomdupe.store.redis.crawl_reader import CrawlOnRedis
    from bloomdupe.store.store import Commit

AT_ONCE = 100
"""Requests in one answer; a request has usually some hundred bytes, and seldom many."""
BLOCKS_AT_ONCE = 128
"""Blocks of the filter (8 kB each) in one answer."""


class RedisStore(Store, Snapshot):
    """A partition, which ``owner`` has; without an owner it is read only.

    It is its own place, a :class:`~bloomdupe.store.store.StorePlace`, and its own
    snapshot, which reads the present records. So a reader without ownership may meet a
    commit between two reads.
    """

    remote = True

    def __init__(
        self,
        crawl: CrawlOnRedis,
        number: int,
        owner: Any = None,
    ) -> None:
        self.number = number
        self.readonly = owner is None
        self.shown = f"{crawl.client.address.shown}, partition {number}"
        self.path = Path()
        self.ahead: dict[bytes, bytes | None] = {}
        """Blocks of the filter that were read before they were asked for."""
        self.taken: list[bytes] = []
        """Entries of its inbox that are in the memory of the owner: the next commit
        removes them, and makes durable what became of them."""
        self._crawl = crawl
        self._owner = owner
        self.header: dict[str, Any] = self.record("store") or {}

    def ask(self, command: str, table: bytes, *words: Any) -> Any:
        """Return the answer to a command about a table."""
        key = self._crawl.keys.table(self.number, table)
        return self._crawl.client.ask(command, key, *words)

    @property
    def transaction(self) -> int:
        """Number of the last commit of its owner; for a reader, of any worker."""
        return int(self._crawl.moment() if self._owner is None else self._owner.step)

    def snapshot(self) -> contextlib.nullcontext[RedisStore]:
        """Read the last commit."""
        return contextlib.nullcontext(self)

    @property
    def now(self) -> RedisStore:
        """The store: the owner reads its own writes."""
        return self

    def damaged(self, what: str) -> StoreError:
        """Return the error for damaged data, or that it is not the owner's any more.

        Reads are not fenced. So first it asks whether it has read its own data.
        """
        remedy = "if workers are at it, try again; else "
        if self._owner is not None:
            remedy = ""
            if not self._owner.still_owns(self):
                return not_owner(self.shown)
        return StoreDamagedError(
            f"{self.shown}: {what}; {remedy}restore the last backup of this Redis, or"
            " remove the crawl and begin it anew"
        )

    def read_inbox(self, limit: int) -> list[bytes]:
        """Return the entries of other workers, in order, behind those already taken."""
        first = len(self.taken)
        found: list[bytes] = self.ask("LRANGE", b"inbox", first, first + limit - 1)
        return found

    def begin(self, *parts: Part) -> Commit:
        """Begin a commit to this partition alone."""
        return self._owner.begin({self: parts})  # type: ignore[no-any-return]

    def close(self) -> None:
        """Do nothing: the connection is its owner's."""

    # As a Snapshot

    def compare(self, table: bytes, found: int, expected: int) -> None:
        """See :meth:`Snapshot.compare`; only an owner can compare.

        Nor can it compare a table that all workers share.
        """
        if not self.readonly and table != COOKIES:
            super().compare(table, found, expected)

    def stored(self, table: bytes, key: bytes) -> bytes | memoryview | None:
        """Return the value under a key as it is stored; blocks are read ahead."""
        if table == BLOCKS:
            return self._block(key)
        answer: bytes | None = self.ask("HGET", table, key)
        return answer

    def _block(self, key: bytes) -> bytes | None:
        """Return a block; those after it are read, too, and kept until asked for."""
        ahead = self.ahead
        if key not in ahead:
            layer, block = BLOCK_KEY.unpack(key)
            keys = [BLOCK_KEY.pack(layer, block + n) for n in range(BLOCKS_AT_ONCE)]
            found = zip(keys, self.ask("HMGET", BLOCKS, *keys), strict=True)
            for one, value in found:
                ahead.setdefault(one, value)
        return ahead.pop(key)

    def _all(self, table: bytes) -> Iterator[tuple[bytes, bytes | memoryview]]:
        if table == QUEUE:
            yield from map(_divided, self.ask("ZRANGE", table, 0, -1))
        else:
            yield from sorted(self.ask("HGETALL", table).items())

    def _requests(
        self, low: bytes, high: bytes, first: int
    ) -> Iterator[tuple[bytes, bytes | memoryview]]:
        bounds = b"(" + high, b"[" + low
        asked = first
        while True:
            asked = min(asked, AT_ONCE)
            found = self.ask("ZREVRANGEBYLEX", QUEUE, *bounds, "LIMIT", 0, asked)
            yield from map(_divided, found)
            if len(found) < asked:
                return
            bounds = b"(" + found[-1], bounds[1]
            asked *= 2

    def entries(self, table: bytes) -> int:
        """Count the records of a table without reading them."""
        call = "ZCARD" if table == QUEUE else "HLEN"
        return int(self.ask(call, table))

    # As a StorePlace

    def exists(self) -> bool:
        """Whether there is a store to open."""
        return bool(self.header)

    def open(self, *, readonly: bool = False) -> RedisStore:
        """Return the store, which is open."""
        del readonly
        return self

    def create(self, records: dict[str, dict[str, Any]]) -> RedisStore:
        """Write these records, among them ``store``, and return the store."""
        self.commit(Part(changes={META: meta_records(records)}))
        self.header = records["store"]
        return self

    def room(self) -> tuple[int, str]:
        """Return how many bytes a new store could take, and of what they are."""
        return self._crawl.client.free_bytes(), f"memory free in {self.shown}"


def _divided(member: bytes) -> tuple[bytes, bytes]:
    """Return key and value of a member of the sorted set."""
    return member[:REQUEST_KEY_BYTES], member[REQUEST_KEY_BYTES:]


def not_owner(shown: str) -> NotOwnerError:
    """Return the error for a partition that is not this worker's any more."""
    return NotOwnerError(
        f"{shown}: another worker has it now, or Redis has gone back to older data;"
        " what this worker did since its last commit does not count"
    )
