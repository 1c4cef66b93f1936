"""Later: requests that are scheduled for later. The next of them are in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from bloomdupe.frontier.slot_queue import Entry, SlotQueue
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
    from collections.abc import Callable, Collection

    from bloomdupe.store.batch import Batch
    from bloomdupe.store.store import Store

BEFORE_ALL = b""
AFTER_ALL = b"\xff" * (LATER_KEY.size + 1)

MAX_NEAR = 5 << 20
"""Bytes of requests kept in memory, the next ones, when a checkpoint has written them
all. See :attr:`Entry.size`."""

BATCH = 500
"""Requests read from disk at once; but none after ``READ_BYTES``."""

NO_LATER = {"requests": 0, "digest": 0}
"""The entry ``later`` of a frontier that has no such requests."""

_NOWHERE = SlotQueue(0, "")
"""Queue of the requests that have not joined the queue of their slot."""


class Postponed:
    """A request that is scheduled for later."""

    __slots__ = ("checksum", "entry", "key", "priority", "slot", "start")

    def __init__(
        self, key: bytes, slot: str, priority: int, entry: Entry, *, start: bool
    ) -> None:
        self.key = key
        """Its due time and its number: see :func:`later_key`."""
        self.slot = slot
        self.priority = priority
        self.start = start
        self.entry = entry
        """Its entry; queue and rank are not known before it is due."""
        self.checksum = 0
        """Checksum of its value in the store, as a number; 0 if it is not there."""

    def __lt__(self, other: Postponed) -> bool:
        return self.key < other.key


@dataclass(kw_only=True)
class LaterPart(Part):
    """The part of the requests that are scheduled for later in a checkpoint."""

    record: dict[str, int]
    """Number of requests that will be stored, and the sum of their checksums."""


class Later:
    """Requests by their not-before time.

    They are stored in the table ``later``, in the order of their times. In memory
    are all requests up to ``_bound``, and above it only those that no checkpoint has
    written yet, and those that are volatile or cannot be stored. So a million of them
    cost no more than a few thousand. A request that is due *moves* into the queue of
    its slot: in memory at once, and in the store with the next checkpoint, which
    deletes it here and stores it there, unless it is done by then. So after a crash it
    is in exactly one table.
    """

    def __init__(self, store: Store | None, record: dict[str, int]) -> None:
        self._store = store
        self._stored = record["requests"]
        self._digest = record["digest"]
        self.waiting = self._stored
        """Number of requests, in memory and in the store."""
        self._near: list[Postponed] = []
        self._near_bytes = 0
        self._bound = BEFORE_ALL if self._stored else AFTER_ALL
        # Requests that are not written yet; ``_beyond`` has those above the bound.
        self._fresh: dict[bytes, Postponed] = {}
        self.fresh_bytes = 0
        """Bytes of the requests that no checkpoint has written."""
        self._beyond: dict[bytes, Postponed] = {}
        self._volatile: dict[Entry, Postponed] = {}
        # Moved to their slots or removed, and in ``later`` until the next checkpoint.
        self._moved: dict[bytes, int] = {}
        self.next_due = math.inf
        """Unix time at which the next request is due; infinite if there are no
        requests."""
        self._find_next()

    def push(
        self, due: float, sequence: int, slot: str, priority: int, entry: Entry,
        *, start: bool,
    ) -> None:  # fmt: skip
        """Schedule a request for a Unix time; ``sequence`` makes its key unique."""
        key = later_key(due, sequence)
        item = Postponed(key, slot, priority, entry, start=start)
        storable = not (self._store is None or entry.payload is None or entry.volatile)
        if entry.volatile:
            self._volatile[entry] = item
        elif storable:
            self._fresh[key] = item
            self.fresh_bytes += entry.size
        if storable and key > self._bound:
            self._beyond[key] = item
        else:
            heappush(self._near, item)
            self._near_bytes += entry.size
        self.waiting += 1
        self.next_due = min(self.next_due, _due(key))

    def save(self, entry: Entry) -> bool:
        """Let a volatile request be written; False if it is not here (any more)."""
        item = self._volatile.pop(entry, None)
        if item is None:
            return False
        self._fresh[item.key] = item
        self.fresh_bytes += entry.size
        return True

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return bool(self._fresh or self._moved)

    def take(self, now: float, most: int) -> list[Postponed]:
        """Remove and return the requests that are due, in order of time.

        It stops after ``most`` bytes.
        """
        taken: list[Postponed] = []
        while self.next_due <= now and most > 0:
            item = heappop(self._near)
            self._near_bytes -= item.entry.size
            most -= item.entry.size
            taken.append(item)
            if item.checksum:
                self._moved[item.key] = item.checksum
            else:  # if it is in the store by now, _written() finds out
                self._no_more_fresh(item.key)
                self._volatile.pop(item.entry, None)
            self.waiting -= 1
            self._find_next()
        return taken

    def remove(self, stored: dict[bytes, int]) -> None:
        """Remove requests that are in the store, by key, with their checksums."""
        self._moved |= stored
        self._drop(stored)

    def withdraw(self, unwanted: Callable[[Entry], bool]) -> list[Entry]:
        """Remove and return requests, without a store."""
        assert self._store is None  # noqa: S101 - like the frontier
        found = [item for item in self._near if unwanted(item.entry)]
        self._drop({item.key for item in found})
        return [item.entry for item in found]

    def _drop(self, keys: Collection[bytes]) -> None:
        self._near = [item for item in self._near if item.key not in keys]
        heapify(self._near)
        self._near_bytes = sum(item.entry.size for item in self._near)
        self.waiting -= len(keys)
        self._find_next()

    def _no_more_fresh(self, key: bytes) -> Postponed | None:
        item = self._fresh.pop(key, None)
        if item is not None:
            self.fresh_bytes -= item.entry.size
        return item

    def _find_next(self) -> None:
        """Make sure that the next request is in memory, and update ``next_due``."""
        while not self._near or self._near[0].key > self._bound:
            if self._bound == AFTER_ALL:
                break
            self._refill()
        self.next_due = _due(self._near[0].key) if self._near else math.inf

    def _refill(self) -> None:
        """Read the next requests from the store."""
        assert self._store is not None  # noqa: S101 - or there is no bound
        known = self._fresh.keys() | self._moved.keys()
        known |= {item.key for item in self._near}  # volatile ones, saved since
        found, more = self._store.later(self._bound, known, BATCH)
        for later in found:
            entry = Entry(_NOWHERE, b"", later.payload)
            item = Postponed(
                later.key, later.slot, later.priority, entry, start=later.start
            )
            item.checksum = later.checksum
            self._near.append(item)
        self._bound = found[-1].key if more else AFTER_ALL
        beyond, self._beyond = self._beyond, {}
        for key, item in beyond.items():
            if key <= self._bound:
                self._near.append(item)
            else:
                self._beyond[key] = item
        self._near_bytes = sum(item.entry.size for item in self._near)
        heapify(self._near)

    def prepare(self) -> LaterPart:
        """Return the part of the next checkpoint."""
        puts = []
        checksums = {}
        digest = self._digest
        for key, item in sorted(self._fresh.items()):
            payload = item.entry.payload
            assert payload is not None  # noqa: S101 - or it would not be fresh
            value = later_record(
                key, item.slot, item.priority, payload, start=item.start
            )
            checksum = int.from_bytes(value[:CHECKSUM_BYTES], "little")
            puts.append((key, value))
            checksums[key] = checksum
            digest += checksum
        deletes = sorted(self._moved)
        digest = (digest - sum(self._moved.values())) % MODULUS
        requests = self._stored + len(puts) - len(deletes)

        def write(batch: Batch) -> None:
            batch.delete(LATER, deletes)
            batch.put(LATER, puts)
            batch.count(LATER, requests, digest)

        def done() -> None:
            self._stored, self._digest = requests, digest
            self._written(checksums, deletes)

        record = {"requests": requests, "digest": digest}
        return LaterPart(record=record, write=write, done=done)

    def _written(self, checksums: dict[bytes, int], deletes: list[bytes]) -> None:
        """Mark the requests of a part as durable, and nothing newer."""
        for key in deletes:
            del self._moved[key]
        for key, checksum in checksums.items():
            item = self._no_more_fresh(key)
            if item is None:  # moved since: the next checkpoint deletes it
                self._moved[key] = checksum
            else:
                item.checksum = checksum
                self._beyond.pop(key, None)
        self._relieve()

    def _relieve(self) -> None:
        """Free memory, now that everything is on disk."""
        if self._near_bytes <= MAX_NEAR:
            return
        self._near.sort()
        kept = size = 0
        for item in self._near:
            size += item.entry.size
            if size > MAX_NEAR and kept:  # the next request stays, however large
                break
            kept += 1
        keep, rest = self._near[:kept], self._near[kept:]
        self._bound = min(self._bound, keep[-1].key)
        for item in rest:
            if item.key in self._fresh:
                self._beyond[item.key] = item
            elif not item.checksum:  # it is volatile, or cannot be stored
                keep.append(item)
        self._near = keep  # in order, so it is a heap
        self._near_bytes = sum(item.entry.size for item in keep)


def waiting_entry(
    payload: bytes | None, attachment: object, *, volatile: bool
) -> Entry:
    """Return an entry that has not joined the queue of its slot."""
    return Entry(_NOWHERE, b"", payload, attachment, volatile=volatile)


def _due(key: bytes) -> float:
    return float(LATER_KEY.unpack(key)[0]) / 1e6
