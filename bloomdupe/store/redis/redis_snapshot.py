"""RedisSnapshot: reads what the owner's commits have written to a partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from bloomdupe.store.format import (
    COOKIES,
    EXACT,
    LATER,
    LATER_KEY,
    PAGE_KEY,
    PAGES,
    successor,
)
from bloomdupe.store.redis.crawl_keys import SORTED
from bloomdupe.store.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bloomdupe.errors import StoreError

AT_ONCE = 100
"""Requests in one answer; a request has usually some hundred bytes, and seldom many."""
SCANNED = 1_000
"""Records in one answer."""
PAGES_AT_ONCE = 128
"""Pages of the filter (8 kB each) in one answer."""


class Tables(Protocol):
    """The tables of a partition; see :class:`~bloomdupe.store.redis.redis_store`."""

    shown: str
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
        self.shown = store.shown
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
        if table == EXACT:
            return b"" if self._ask("SISMEMBER", table, key) else None
        if table in SORTED:
            found = self._range(table, key, successor(key), first=1)
            return next((value for _, value in found), None)
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

    def _range(
        self,
        table: bytes,
        low: bytes = b"",
        high: bytes = b"",
        *,
        backwards: bool = False,
        first: int = AT_ONCE,
    ) -> Iterator[tuple[bytes, bytes | memoryview]]:
        if table in SORTED:
            for member in self._members(table, low, high, first, backwards=backwards):
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

    def _members(
        self, table: bytes, low: bytes, high: bytes, first: int, *, backwards: bool
    ) -> Iterator[bytes]:
        """Yield the members of a sorted set; each begins with its key."""
        begin, end = b"[" + low if low else b"-", b"(" + high if high else b"+"
        command = "ZREVRANGEBYLEX" if backwards else "ZRANGEBYLEX"
        asked = first
        while True:
            asked = min(asked, AT_ONCE)
            bounds = (end, begin) if backwards else (begin, end)
            found = self._ask(command, table, *bounds, "LIMIT", 0, asked)
            yield from found
            if len(found) < asked:
                return
            if backwards:
                end = b"(" + found[-1]
            else:
                begin = b"(" + found[-1]
            asked *= 2

    def entries(self, table: bytes) -> int:
        """Count the records of a table without reading them."""
        call = "ZCARD" if table in SORTED else "SCARD" if table == EXACT else "HLEN"
        return int(self._ask(call, table))

    def version(self, table: bytes) -> object:
        """Return a value that is different when the table has changed."""
        del table
        return self.transaction


def key_size(table: bytes, member: bytes) -> int:
    """Return the size of the key at the head of a member of a sorted set."""
    if table == LATER:
        return LATER_KEY.size
    size = 1 << (member[0] >> 6)  # the slot
    head = 255 - member[size]  # of the rank, which is inverted
    if 16 <= head <= 239:
        return size + 7
    return size + 1 + (16 - head if head < 16 else head - 239) + 7
