"""Snapshot: the contract of reading the tables as of the last commit."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from bloomdupe.store.format import (
    APART,
    CHECKSUM_BYTES,
    INVERTED,
    META,
    QUEUE,
    SLOT_KEY,
    SLOTS,
    StoredSlot,
    checksum,
    describe,
    successor,
)
from bloomdupe.store.progress import reported

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from bloomdupe.errors import StoreError

READ_BYTES = 1 << 20
"""Bytes of requests that are read at once: reading ends after them."""


class Snapshot(ABC):
    """The tables as of one moment.

    Raises :class:`~bloomdupe.errors.StoreDamagedError` for a value with a wrong sum.
    :mod:`bloomdupe.store.format` declares the tables, their keys and values.
    """

    shown: str
    """What is read, for a message."""

    @property
    @abstractmethod
    def transaction(self) -> int:
        """Number of the last commit."""

    @abstractmethod
    def damaged(self, what: str) -> StoreError:
        """Return the error that says what is damaged, and the remedy."""

    # Any table

    @abstractmethod
    def stored(self, table: bytes, key: bytes) -> bytes | memoryview | None:
        """Return the value under a key as it is stored, not compared with its sum.

        It is valid until the next commit. Not for ``queue``.
        """

    @abstractmethod
    def _all(self, table: bytes) -> Iterator[tuple[bytes, bytes | memoryview]]:
        """Yield all keys in order, and values as they are stored."""

    @abstractmethod
    def _requests(
        self, low: bytes, high: bytes, first: int
    ) -> Iterator[tuple[bytes, bytes | memoryview]]:
        """Yield keys of ``queue`` from below ``high`` down to ``low``, and values.

        About ``first`` records are wanted.
        """

    def get(self, table: bytes, key: bytes) -> memoryview | None:
        """Return the value under a key, without its sum; None if there is none."""
        value = self.value(table, key)
        return None if value is None else value[CHECKSUM_BYTES:]

    def value(self, table: bytes, key: bytes) -> memoryview | None:
        """Return the value under a key, which begins with its sum."""
        value = self.stored(table, key)
        return None if value is None else self._checked(table, key, value)

    def records(self, table: bytes) -> Iterator[tuple[bytes, memoryview]]:
        """Yield keys and values, without their sums; see :meth:`values`."""
        for key, value in self.values(table):
            yield key, value[CHECKSUM_BYTES:]

    def values(self, table: bytes) -> Iterator[tuple[bytes, memoryview]]:
        """Yield keys and values, which begin with their sums, in order.

        A table in which records are missing is refused. The log says how far it is.
        """
        total, number = self.entries(table), 0
        task = f"Reading the {table.decode()} of {self.shown}"
        for key, value in reported(self._all(table), task, total, "records"):
            yield key, self._checked(table, key, value)
            number += 1
        self.compare(table, number, total)

    def keys(self, table: bytes) -> Iterator[bytes]:
        """Yield all keys, in order; values are not compared with their sums."""
        return (key for key, _ in self._all(table))

    @abstractmethod
    def entries(self, table: bytes) -> int:
        """Count the records of a table without reading them."""

    def expect_entries(self, table: bytes, expected: int) -> None:
        """Refuse a table in which records are missing, without reading them."""
        self.compare(table, self.entries(table), expected)

    def compare(self, table: bytes, found: int, expected: int) -> None:
        """Refuse a table in which another number of records was found."""
        if found != expected:
            raise self.damaged(
                f"{found:,} {table.decode()} records stand where {expected:,} were"
                " written"
            )

    # Records of meta

    def record(self, name: str) -> dict[str, Any] | None:
        """Return the named record, or None if it is missing."""
        value = self.get(META, name.encode())
        if value is None:
            return None
        record: dict[str, Any] = json.loads(bytes(value))
        return record

    # Requests

    def slots(self) -> Iterator[StoredSlot]:
        """Yield all slots that have requests; the delayed requests are the last one."""
        for key, value in self.records(SLOTS):
            if key.startswith(APART):
                break  # they are the last ones
            yield StoredSlot.read(SLOT_KEY.unpack(key)[0], value)

    def next_requests(
        self, slot: int, after: bytes, but: Container[bytes], limit: int
    ) -> tuple[list[tuple[bytes, bytes]], bool]:
        """Return the first ``limit`` requests above ``after`` that are not in ``but``.

        As ranks and payloads; and whether there may be more. It stops after
        ``READ_BYTES``.
        """
        prefix = SLOT_KEY.pack(slot)
        size = len(prefix)
        # The keys are inverted.
        end = prefix + after.translate(INVERTED) if after else successor(prefix)
        found: list[tuple[bytes, bytes]] = []
        most = READ_BYTES
        for key, value in self._requests(prefix, end, limit):
            rank = key[size:].translate(INVERTED)
            if rank not in but:
                body = self._checked(QUEUE, key, value)[CHECKSUM_BYTES:]
                found.append((rank, bytes(body)))
                most -= len(body)
                if len(found) == limit or most <= 0:
                    return found, True
        return found, False

    def _checked(
        self, table: bytes, key: bytes, value: bytes | memoryview
    ) -> memoryview:
        """Return a value, after it was compared with its sum."""
        value = memoryview(value)
        if value[:CHECKSUM_BYTES] != checksum(table, key, value[CHECKSUM_BYTES:]):
            raise self.damaged(f"{describe(table, key)} is damaged")
        return value
