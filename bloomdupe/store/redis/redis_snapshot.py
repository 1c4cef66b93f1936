"""RedisSnapshot: reads what the owner's commits have written to a partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from bloomdupe.store.format import (
    CHECKSUM_BYTES,
    COOKIES,
    EXACT,
    INVERTED,
    LATER,
    LATER_KEY,
    PAGE_KEY,
    PAGES,
    QUEUE,
    StoredLater,
    StoredRequest,
    checksum,
    read_later,
    slot_prefix,
)
from bloomdupe.store.redis.crawl_keys import SORTED
from bloomdupe.store.redis.redis_batch import successor
from bloomdupe.store.snapshot import READ_BYTES, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from bloomdupe.errors import StoreError

AT_ONCE = 100
"""Requests in one answer; a request has usually some hundred bytes, and seldom many."""
SCANNED = 1_000
"""Records in one answer."""
PAGES_AT_ONCE = 128
"""Pages of the filter (8 kB each) in one answer."""


class Tables(Protocol):
    """The tables of a partition; see :class:`~bloomdupe.store.redis.redis_store`."""

    ahead: dict[bytes, bytes | None]

    @property
    def transaction(self) -> int:
        """Number of the last commit."""

    def ask(self, command: str, table: bytes, *words: Any) -> Any:  # noqa: ANN401
        """Return the answer to a command about a table."""

    def wrong(self, what: str, begun: int) -> StoreError:
        """Return the error for what a read has found that began at a commit."""

    def moved(self, begun: int) -> bool:
        """Whether others have committed since a read that began at a commit."""


class RedisSnapshot(Snapshot):
    """The tables of a partition, as they are when they are read.

    The owner reads its own writes. Another reader may meet a commit between two reads;
    if something does not fit then, it is told to read again.
    """

    def __init__(self, store: Tables) -> None:
        self._store = store
        self._begun = store.transaction

    @property
    def transaction(self) -> int:
        """Number of the last commit of any worker."""
        return self._begun

    def damaged(self, what: str) -> StoreError:
        """Return the error that says what is damaged, unless it has changed since."""
        return self._store.wrong(what, self._begun)

    def compare(self, table: bytes, found: int, expected: int) -> None:
        """See :meth:`Snapshot.compare`; of a crawl that goes on, nobody knows it.

        Nor does a worker know it of a table that all of them share.
        """
        shared = table == COOKIES
        if found != expected and not shared and not self._store.moved(self._begun):
            super().compare(table, found, expected)

    def _ask(self, command: str, table: bytes, *words: Any) -> Any:  # noqa: ANN401
        return self._store.ask(command, table, *words)

    # Any table

    def _stored(self, table: bytes, key: bytes) -> bytes | memoryview | None:
        if table == PAGES:
            return self._page(key)
        if table in SORTED:
            end = b"(" + successor(key)
            found = self._ask("ZRANGEBYLEX", table, b"[" + key, end)
            return found[0][len(key) :] if found else None
        answer: bytes | None = self._ask("HGET", table, key)
        return answer

    def _page(self, key: bytes) -> bytes | None:
        """Return a page; the pages after it are read, too, and kept until asked for."""
        ahead = self._store.ahead
        if key not in ahead:
            layer, page = PAGE_KEY.unpack(key)
            keys = [PAGE_KEY.pack(layer, page + n) for n in range(PAGES_AT_ONCE)]
            found = zip(keys, self._ask("HMGET", PAGES, *keys), strict=True)
            for one, value in found:
                ahead.setdefault(one, value)
        return ahead.pop(key)

    def has(self, table: bytes, key: bytes) -> bool:
        """Whether there is a record with this key."""
        if table == EXACT:
            return bool(self._ask("SISMEMBER", table, key))
        if table in SORTED:
            return self._stored(table, key) is not None
        return bool(self._ask("HEXISTS", table, key))

    def values(self, table: bytes) -> Iterator[tuple[bytes, memoryview]]:
        """Yield keys and values, which begin with their sums, in order."""
        expected = self.entries(table)
        number = 0
        for key, value in self._raw(table):
            yield key, self._checked(table, key, value)
            number += 1
        self.compare(table, number, expected)

    def _raw(self, table: bytes) -> Iterator[tuple[bytes, bytes]]:
        if table in SORTED:
            for member in self._members(table, b"-"):
                size = key_size(table, member)
                yield member[:size], member[size:]
        elif table == EXACT:
            yield from ((key, b"") for key in sorted(self._ask("SMEMBERS", table)))
        elif table == PAGES:  # too large to be kept at once
            keys = sorted(self._ask("HKEYS", table))
            for at in range(0, len(keys), PAGES_AT_ONCE):
                some = keys[at : at + PAGES_AT_ONCE]
                values = self._ask("HMGET", table, *some)
                yield from zip(some, values, strict=True)
        else:
            found: dict[bytes, bytes] = {}
            place = -1
            while place:
                place = max(0, place)
                place, some = self._ask("HSCAN", table, place, "COUNT", SCANNED)
                found |= some
            yield from sorted(found.items())

    def _members(self, table: bytes, low: bytes) -> Iterator[bytes]:
        while True:
            found = self._ask(
                "ZRANGEBYLEX", table, low, "+", "LIMIT", 0, AT_ONCE
            )  # fmt: skip
            yield from found
            if len(found) < AT_ONCE:
                return
            low = b"(" + found[-1]

    def keys(self, table: bytes) -> Iterator[bytes]:
        """Yield all keys, in order; values are not compared with their sums."""
        if table in SORTED or table == EXACT:
            yield from (key for key, _ in self._raw(table))
        else:
            yield from sorted(self._ask("HKEYS", table))

    def entries(self, table: bytes) -> int:
        """Count the records of a table without reading them."""
        call = "ZCARD" if table in SORTED else "SCARD" if table == EXACT else "HLEN"
        return int(self._ask(call, table))

    def version(self, table: bytes) -> object:
        """Return a value that is different when the table has changed."""
        del table
        return self.transaction

    # Requests

    def next_requests(
        self, slot: int, after: bytes, but: Container[bytes], limit: int
    ) -> tuple[list[tuple[bytes, bytes, int]], bool]:
        """Return the first ``limit`` requests above ``after`` that are not in ``but``.

        And whether there may be more. It stops after ``READ_BYTES``.
        """
        prefix = slot_prefix(slot)
        size = len(prefix)
        # The keys are inverted: go backwards from the first key that is too large.
        end = prefix + after.translate(INVERTED) if after else successor(prefix)
        high, low = b"(" + end, b"[" + prefix
        found: list[tuple[bytes, bytes, int]] = []
        most = READ_BYTES
        asked = limit
        while True:
            asked = min(asked, AT_ONCE)
            members = self._ask(
                "ZREVRANGEBYLEX", QUEUE, high, low, "LIMIT", 0, asked
            )  # fmt: skip
            for member in members:
                at = key_size(QUEUE, member)
                key = member[:at]
                rank = key[size:].translate(INVERTED)
                if rank in but:
                    continue
                head, body = member[at : at + 8], member[at + CHECKSUM_BYTES :]
                if head != checksum(QUEUE, key, body):
                    raise self._damaged(QUEUE, key)
                found.append((rank, body, int.from_bytes(head, "little")))
                most -= len(body)
                if len(found) == limit or most <= 0:
                    return found, True
            if len(members) < asked:
                return found, False
            high = b"(" + members[-1]
            asked *= 2

    def requests_that(
        self, may_be: Callable[[bytes], object], begin: bytes, limit: int
    ) -> tuple[int, list[tuple[int, StoredRequest]], bytes | None]:
        """Search the next ``limit`` requests from the key ``begin`` on."""
        low = b"[" + begin if begin else b"-"
        found: list[tuple[int, StoredRequest]] = []
        number = 0
        for member in self._members(QUEUE, low):
            size = key_size(QUEUE, member)
            key, value = member[:size], member[size:]
            if number == limit:
                return number, found, key
            number += 1
            if may_be(value):
                found.append(self._request(key, self._checked(QUEUE, key, value)))
        return number, found, None

    def later(self, after: bytes = b"") -> Iterator[StoredLater]:
        """Yield the requests scheduled for later, in order, from above ``after``."""
        low = b"[" + successor(after) if after else b"-"
        for member in self._members(LATER, low):
            key, value = member[: LATER_KEY.size], member[LATER_KEY.size :]
            yield read_later(key, bytes(self._checked(LATER, key, value)))


def key_size(table: bytes, member: bytes) -> int:
    """Return the size of the key at the head of a member of a sorted set."""
    if table == LATER:
        return LATER_KEY.size
    size = 1 << (member[0] >> 6)  # the slot
    head = 255 - member[size]  # of the rank, which is inverted
    if 16 <= head <= 239:
        return size + 7
    return size + 1 + (16 - head if head < 16 else head - 239) + 7
