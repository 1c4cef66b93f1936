"""Store: the contract of a store; a commit in three steps, and the parts of it.

A :class:`Participant` prepares a :class:`Part` for each checkpoint.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from bloomdupe.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import TypeAlias

    from bloomdupe.store.snapshot import Snapshot

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
    the order of the keys."""
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


class Unwritten(dict[bytes, bytes | None]):
    """Changes of the records of a ``table`` that are not durable yet."""

    def __init__(self, table: bytes) -> None:
        super().__init__()
        self._table = table

    def part(self) -> Part:
        """Return the part that makes durable what there is now."""
        changes = dict(self)

        def done() -> None:
            for key, value in changes.items():
                if self[key] is value:
                    del self[key]

        return Part(changes={self._table: changes}, done=done)


class Commit:
    """A commit that was begun: all of its parts become durable, or none.

    :meth:`send` may run on another thread, one commit at a time, and waits for the disk
    or the network. If it raises, the last commit stands, and the same parts can be
    begun again. :meth:`done` belongs on the thread that has begun the commit.
    """

    def __init__(
        self, parts: Iterable[Part], send: Callable[[], None] = _do_nothing
    ) -> None:
        self._parts = list(parts)
        self.send = send

    def add(self, part: Part) -> None:
        """Tell one more part, which writes nothing."""
        self._parts.append(part)

    def done(self) -> None:
        """Tell every part that it is durable, even if a part raises then."""
        errors = []
        for part in self._parts:
            try:
                part.done()
            except BaseException as error:  # noqa: BLE001 - raised below
                errors.append(error)
        if errors:
            raise errors[0]


class Store(ABC):
    """Tables of records that are read as of the last commit.

    :mod:`bloomdupe.store.format` declares the tables. A store has one owner, which
    alone writes, and any number of readers.
    """

    path: Path
    """The directory of the store, or of what stays beside it."""
    shown: str
    """Where it is, for a message; without a password."""
    readonly: bool
    header: dict[str, Any]
    """The record ``store``, which never changes."""
    remote = False
    """Whether reading and sending wait for a network: no look-up for each URL, and a
    commit is better sent on another thread."""

    # Reading

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """Read the last commit."""

    @property
    @abstractmethod
    def now(self) -> Snapshot:
        """The last commit, to be read by the owner until it begins the next one."""

    def disk_bytes(self) -> int:
        """Bytes that the store takes on the disk of this machine."""
        return 0

    def free_bytes(self) -> int:
        """Bytes that are free on that disk."""
        return 0

    # Writing

    @abstractmethod
    def begin(self, *parts: Part) -> Commit:
        """Begin a commit of all parts; nothing is durable yet."""

    def commit(self, *parts: Part) -> None:
        """Make all parts durable at once: all of them, or none.

        If it fails, the last commit stands, no part is told that it is done, and the
        same parts can be committed later. Once it is durable, every part is told so,
        even if another part raises an exception then.
        """
        if self.readonly:
            raise StoreError(f"{self.shown} was opened read-only")
        commit = self.begin(*parts)
        commit.send()
        commit.done()

    def heartbeat(self, moment: float) -> None:  # noqa: B027 - on Redis the lease shows it
        """Show readers that the owner is alive; the data are not touched."""

    @abstractmethod
    def close(self) -> None:
        """Release the store. Nothing is written to the data."""

    def copy(self, target: Path, *, without: Collection[bytes] = ()) -> int:
        """Write a compacted copy of the last commit to the new store ``target``.

        Other processes may read and write meanwhile. The copy holds nothing of the
        tables ``without``, not even in unused bytes; returns the number of records that
        were left out.
        """
        del target, without
        raise StoreError(f"{self.shown}: back up this Redis with its own means")


class StorePlace(Protocol):
    """Where a store is, or can be made."""

    @property
    def shown(self) -> str:
        """The place for a message; without a password."""

    def exists(self) -> bool:
        """Whether there is a store to open; refuses anything else that is there."""

    def open(self, *, readonly: bool = False) -> Store:
        """Open the store; ``readonly`` also while another process writes."""

    def create(self, records: dict[str, dict[str, Any]]) -> Store:
        """Create a store with these records, among them ``store``, and open it."""

    def room(self) -> tuple[int, str]:
        """Return how many bytes a new store could take, and of what they are."""
