"""Part: what is written of a participant; Participant: who has a part in a commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    Changes: TypeAlias = Mapping[bytes, bytes | None]
    """New values by key; None removes the record, if it is there."""


def _do_nothing() -> None:
    pass


@dataclass(kw_only=True)
class Part:
    """The data that a participant writes in a checkpoint, in the order of the fields.

    A part holds all that it needs, because its participant may change before the part
    is written. A part that was not committed is dropped without a call.
    :mod:`bloomdupe.store.format` declares the tables, their keys and values.
    """

    entries: dict[str, Any] = field(default_factory=dict)
    """Entries of the record ``crawl``."""
    cleared: Sequence[bytes] = ()
    """Tables of which all records are removed."""
    changes: Mapping[bytes, Changes] = field(default_factory=dict)
    """Changes of records, by table. A store puts a sum before each value, and writes in
    the order of the keys. Requests are put once and never replaced."""
    exact: Sequence[bytes] = ()
    """Identities of keys to store exactly."""
    output: Sequence[Sequence[bytes]] = ()
    """Lines of the output of a crawl on Redis: fields and values."""
    partitions: dict[int, Part] = field(default_factory=dict)
    """What is written to a partition, which need not be the one with the record
    ``crawl``. A crawl in a directory has only that one."""
    done: Callable[[], None] = _do_nothing
    """Called once, when all of this is durable; newer data belongs to the next part."""


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
