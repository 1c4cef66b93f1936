"""Batch: the writes of one commit, as changes to tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from bloomdupe.store.format import META, json_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeAlias

    Change: TypeAlias = tuple[bytes, bytes | None]
    """A key and its new value; None removes the record."""


class Batch(ABC):
    """What a part writes to. Nothing can be read from it.

    :mod:`bloomdupe.store.format` declares the tables, their keys and values.
    """

    @abstractmethod
    def change(self, table: bytes, changes: Iterable[Change]) -> None:
        """Store values, each after its sum, and remove records, if they are there.

        For ``queue`` and ``later`` see :meth:`replace`.
        """

    def put_record(self, name: str, record: dict[str, Any]) -> None:
        """Store a record of ``meta``, of numbers and texts."""
        self.change(META, [(name.encode(), json_of(record))])

    @abstractmethod
    def add_exact(self, identities: Iterable[bytes]) -> None:
        """Store exact identities of keys."""

    @abstractmethod
    def clear(self, *tables: bytes) -> None:
        """Remove all records of these tables."""

    def add_line(self, fields: Sequence[bytes]) -> None:
        """Add a line to the output, which only a crawl on Redis has."""
        raise NotImplementedError

    @abstractmethod
    def replace(self, table: bytes, gone: list[bytes], new: dict[bytes, bytes]) -> None:
        """Remove records of ``queue`` or ``later``, and store new ones.

        ``gone`` are keys, best in order. ``new`` are records by key; the values begin
        with their sums.
        """
