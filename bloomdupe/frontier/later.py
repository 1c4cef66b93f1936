"""Later: requests that are scheduled for later. The next of them are in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, cast

from bloomdupe.frontier.slot_queue import NOWHERE, Entry, SlotQueue
from bloomdupe.store.format import (
    CHECKSUM_BYTES,
    LATER,
    LATER_KEY,
    MODULUS,
    later_key,
    later_record,
)
from bloomdupe.store.participant import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from bloomdupe.store.batch import Batch
    from bloomdupe.store.store import Store

MAX_NEAR = 5 << 20
"""Bytes of requests kept in memory, the next ones, when a checkpoint has written them
all. See :attr:`Entry.size`."""

NO_LATER = {"requests": 0, "digest": 0}
"""The entry ``later`` of a frontier that has no such requests."""


class Waiting(Entry):
    """A request that is scheduled for later.

    Until it is due, its rank is its key in the table ``later``: due time and number.
    """

    __slots__ = ("priority", "slot", "start")

    def __init__(
        self,
        slot: str,
        priority: int,
        payload: bytes | None,
        attachment: object = None,
        checksum: int = 0,
        *,
        start: bool,
        volatile: bool = False,
    ) -> None:
        super().__init__(NOWHERE, b"", payload, attachment, checksum, volatile=volatile)
        self.slot = slot
        self.priority = priority
        self.start = start


@dataclass(kw_only=True)
class LaterPart(Part):
    """The part of the requests that are scheduled for later in a checkpoint."""

    record: dict[str, int]
    """Number of requests that will be stored, and the sum of their checksums."""


class Later(SlotQueue):
    """Requests by their not-before time, as in the queue of a slot.

    They are stored in the table ``later``, in the order of their times. The next
    request is always in memory. A request that is due *moves* into the queue of its
    slot: in memory at once, and in the store with the next checkpoint, which deletes it
    here and stores it there, unless it is done by then. So after a crash it is in
    exactly one table.
    """

    def __init__(self, store: Store | None, record: dict[str, int]) -> None:
        super().__init__(0, "", record["requests"])
        self._store = store
        self._digest = record["digest"]
        self._fresh: dict[Entry, None] = {}
        self.fresh_bytes = 0
        """Bytes of the requests that no checkpoint has written."""
        self._moved: dict[bytes, int] = {}
        """Checksums by key of requests that the next checkpoint deletes: they have
        moved to their slots, or were removed."""
        self._prepared: dict[Entry, tuple[bytes, int]] = {}
        """Keys and checksums of the requests that the last part writes."""
        self.next_due = math.inf
        """Unix time at which the next request is due; infinite if there are no
        requests."""
        self._find_next()

    def schedule(self, entry: Waiting, due: float, sequence: int) -> None:
        """Add a request for a Unix time; ``sequence`` makes its key unique."""
        entry.queue, entry.rank = self, later_key(due, sequence)
        self.push(entry)
        if not (self._store is None or entry.payload is None or entry.volatile):
            self._write(entry)
        self._find_next()

    def save(self, entry: Entry) -> bool:
        """Let a volatile request be written; False if it is not here (any more)."""
        if entry.queue is not self:
            return False
        self._write(entry)
        return True

    def _write(self, entry: Entry) -> None:
        self._fresh[entry] = None
        self.fresh_bytes += entry.size

    def _no_more_fresh(self, entry: Entry) -> bool:
        if entry not in self._fresh:
            return False
        del self._fresh[entry]
        self.fresh_bytes -= entry.size
        return True

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return bool(self._fresh or self._moved)

    def take(self, now: float, most: int) -> list[Waiting]:
        """Remove and return the requests that are due, in order of time.

        It stops after ``most`` bytes.
        """
        taken: list[Waiting] = []
        while self.next_due <= now and most > 0:
            entry = cast("Waiting", self.pop())
            most -= entry.size
            if entry.stored:
                self._moved[entry.rank] = entry.checksum
            else:
                self._no_more_fresh(entry)
                if entry not in self._prepared:
                    self.forget(entry.rank)
            entry.stored, entry.checksum = False, 0
            taken.append(entry)
            self._find_next()
        return taken

    def drop(self, stored: dict[bytes, int]) -> None:
        """Remove requests that are in the store, by key, with their checksums."""
        self.remove(stored)
        self._moved |= stored
        self._find_next()

    def withdraw(self, unwanted: Callable[[Entry], bool]) -> list[Entry]:
        """Remove and return the unwanted requests among those in memory."""
        found = super().withdraw(unwanted)
        self._find_next()
        return found

    def _find_next(self) -> None:
        """Make sure that the next request is in memory, and update ``next_due``."""
        if self.pending and not self.heap:
            assert self._store is not None  # noqa: S101 - or all are in memory
            self.refill(self._store)
        self.next_due = math.inf
        if self.heap:
            self.next_due = LATER_KEY.unpack(self.heap[0][0])[0] / 1e6

    def _read(
        self, store: Store, but: Container[bytes]
    ) -> tuple[list[tuple[bytes, Entry]], bool]:
        items: list[tuple[bytes, Entry]] = []
        found, more = store.now.next_later(self.bound, but, self.batch)
        for one in found:
            entry = Waiting(
                one.slot, one.priority, one.payload, None, one.checksum, start=one.start
            )
            entry.queue, entry.rank = self, one.key
            items.append((one.key, entry))
        return items, more

    def prepare(self) -> LaterPart:
        """Return the part of the next checkpoint."""
        for entry, (key, _) in self._prepared.items():  # it was given up
            if entry not in self._fresh:
                self.forget(key)
        puts: dict[bytes, bytes] = {}
        prepared: dict[Entry, tuple[bytes, int]] = {}
        digest = self._digest
        for entry in sorted(self._fresh, key=attrgetter("rank")):
            payload, key = entry.payload, entry.rank
            assert payload is not None  # noqa: S101 - or it would not be fresh
            assert isinstance(entry, Waiting)  # noqa: S101 - all here are
            value = later_record(
                key, entry.slot, entry.priority, payload, start=entry.start
            )
            checksum = int.from_bytes(value[:CHECKSUM_BYTES], "little")
            puts[key] = value
            prepared[entry] = key, checksum
            digest += checksum
        deletes = sorted(self._moved)
        digest = (digest - sum(self._moved.values())) % MODULUS
        requests = self.stored + len(puts) - len(deletes)
        self._prepared = prepared

        def write(batch: Batch) -> None:
            batch.replace(LATER, deletes, puts, (requests, digest))

        def done() -> None:
            self.stored, self._digest = requests, digest
            self._written(deletes)

        record = {"requests": requests, "digest": digest}
        return LaterPart(record=record, write=write, done=done)

    def _written(self, deletes: list[bytes]) -> None:
        """Mark the requests of a part as durable, and nothing newer."""
        for key in deletes:
            del self._moved[key]
            self.forget(key)
        prepared, self._prepared = self._prepared, {}
        for entry, (key, checksum) in prepared.items():
            if self._no_more_fresh(entry):
                entry.stored, entry.checksum = True, checksum
            else:  # moved since: the next checkpoint deletes it
                self._moved[key] = checksum
        self.relieve(MAX_NEAR)
        self._find_next()
