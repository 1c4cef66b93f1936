"""Batch: changes of a store; Participant: an object that has a part in them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from bloomdupe.store.format import META, json_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
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


def _write_nothing(_: Batch) -> None:
    pass


def _do_nothing() -> None:
    pass


@dataclass(kw_only=True)
class Part:
    """The data that a participant writes in a checkpoint.

    A part holds all that it needs, because its participant may change before the part
    is written. A part that was not committed is dropped without a call.
    """

    entries: dict[str, Any] = field(default_factory=dict)
    """Entries of the record ``crawl``."""
    changes: dict[bytes, list[Change]] = field(default_factory=dict)
    """Changes of records, by table."""
    write: Callable[[Batch], None] = _write_nothing
    """Writes what is not among the ``changes``, after them. It may be called several
    times (when the map must grow), and must not change anything else."""
    partitions: dict[int, Part] = field(default_factory=dict)
    """What is written to a partition, which need not be the one with the record
    ``crawl``. A crawl in a directory has only that one."""
    output: Sequence[Sequence[bytes]] = ()
    """Lines of the output of a crawl on Redis: fields and values."""
    done: Callable[[], None] = _do_nothing
    """Called once, when all of this is durable; newer data belongs to the next part."""

    def apply(self, batch: Batch) -> None:
        """Write changes and output, then the rest; the entries are not its."""
        for table, changes in self.changes.items():
            batch.change(table, changes)
        for line in self.output:
            batch.add_line(line)
        self.write(batch)


class Participant(Protocol):
    """Takes part in a checkpoint, in two phases.

    ``prepare`` computes the data to write and does not change the participant, so it
    may raise, and may be called again if the commit fails. ``Part.done`` records
    exactly the prepared data as written: more may have come meanwhile.
    """

    @property
    def changed(self) -> bool:
        """Whether it is a reason for a checkpoint; if not, it is only part of one."""
        return False

    def prepare(self) -> Part:
        """Return the participant's part of the next checkpoint."""
