"""Participant: an object that takes part in the transaction of a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bloomdupe.store.batch import Batch, Change


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
