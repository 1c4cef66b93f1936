"""Batch: the writes of one commit, as changes to tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from bloomdupe.store.format import BLOBS, META, json_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeAlias

    Change: TypeAlias = tuple[bytes, bytes | None]
    """A key and its new value; None removes the record."""


class Batch(ABC):
    """What a part writes to. Nothing can be read from it.

    :mod:`bloomdupe.store.format` declares the tables, their keys and values.
    """

    @abstractmethod
    def change(self, table: bytes, changes: Iterable[Change]) -> None:
        """Store values, each after its sum, and remove records, if they are there."""

    def put_record(self, name: str, record: dict[str, Any]) -> None:
        """Store a record of ``meta``, of numbers and texts."""
        self.change(META, [(name.encode(), json_of(record))])

    def put_blob(self, name: str, value: bytes) -> None:
        """Store some bytes under a name."""
        self.change(BLOBS, [(name.encode(), value)])

    @abstractmethod
    def add_exact(self, identities: Iterable[bytes]) -> None:
        """Store exact identities of keys."""

    @abstractmethod
    def clear(self, *tables: bytes) -> None:
        """Remove all records of these tables."""

    # Tables of which the caller knows the number of records, and the total of their
    # sums. The values begin with their sums.

    @abstractmethod
    def put(self, table: bytes, records: list[tuple[bytes, bytes]]) -> None:
        """Store records in the order of their keys; call :meth:`count` afterwards."""

    @abstractmethod
    def put_requests(
        self, few: dict[bytes, bytes], many: Iterable[list[tuple[bytes, bytes]]]
    ) -> None:
        """Store new records of ``queue``, by key, and of slots with many."""

    @abstractmethod
    def delete(self, table: bytes, keys: list[bytes]) -> None:
        """Remove records, best in the order of the keys; then call :meth:`count`."""

    @abstractmethod
    def count(self, table: bytes, records: int, sums: int) -> None:
        """Set the number of records, and the total of their sums."""
