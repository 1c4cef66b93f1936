"""SlotQueue: the requests that wait in one slot, the next in memory, the rest on disk.

A slot is what the downloader is polite to: a host, usually.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from bloomdupe.frontier.rank import AFTER_ALL, BEFORE_ALL
from bloomdupe.store.snapshot import READ_BYTES

if TYPE_CHECKING:
    from collections import OrderedDict
    from collections.abc import Callable, Iterable

    from bloomdupe.store.store import Store

__all__ = ["Entry", "SlotQueue"]

MIN_BATCH = 1
MAX_BATCH = 256
"""Requests read from disk at once: few from a slot that is only visited, more from
one that is emptied; but none after ``READ_BYTES``."""

REQUEST_BYTES = 1_000
"""What a request costs besides its payload, in memory and in a checkpoint, at most.
So a bound in bytes is one in numbers, too."""


class Entry:
    """A request in the frontier."""

    __slots__ = (
        "active",
        "attachment",
        "checksum",
        "payload",
        "queue",
        "rank",
        "stored",
    )

    def __init__(
        self,
        queue: SlotQueue,
        rank: bytes,
        payload: bytes | None,
        attachment: object = None,
        checksum: int = 0,
    ) -> None:
        self.queue = queue
        self.rank = rank
        self.payload = payload
        """None: it cannot be stored, and lives in memory only."""
        self.attachment = attachment
        """Whatever came with it; None once it has been on disk only."""
        self.stored = checksum != 0
        """Whether it is in the store, be it pending, leased or just settled."""
        self.checksum = checksum
        """Of its value in the store, as a number; 0 if it is not there."""
        self.active = False
        """Whether it keeps its slot busy."""

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        payload = self.payload
        return REQUEST_BYTES + len(payload) if payload else REQUEST_BYTES


class SlotQueue:
    """Pending requests of one slot, by rank.

    Those up to ``bound`` are all in ``heap``. Those above are in the store only,
    but for ``beyond``: new ones that no checkpoint has written yet, and those
    that cannot be written. A slot that nobody asks costs no more than this object.
    """

    __slots__ = (
        "active",
        "alarm",
        "batch",
        "beyond",
        "bound",
        "heap",
        "loaded",
        "name",
        "number",
        "out",
        "pending",
        "ring",
        "stored",
    )

    def __init__(self, number: int, name: str, stored: int = 0) -> None:
        self.number = number
        self.name = name
        self.pending = stored
        """Requests that wait, wherever they are."""
        self.stored = stored
        """Requests in the store, those included that are out."""
        self.heap: list[tuple[bytes, Entry]] | None = None
        self.loaded = 0
        """Bytes in ``heap``."""
        self.beyond: list[tuple[bytes, Entry]] | None = None
        self.bound = BEFORE_ALL if stored else AFTER_ALL
        self.out: set[bytes] | None = None
        """Ranks of leased and settled requests that are still in the store, or
        may be after a checkpoint that is under way or the next one."""
        self.batch = MIN_BATCH
        # Of bloomdupe.frontier.rotation:
        self.active = 0
        self.ring: OrderedDict[SlotQueue, None] | None = None
        self.alarm = 0

    def push(self, entry: Entry) -> bool:
        """Add a new request; whether it is among the next in memory, in ``heap``."""
        self.pending += 1
        item = (entry.rank, entry)
        if entry.rank > self.bound:
            if self.beyond is None:
                self.beyond = []
            self.beyond.append(item)
            return False
        if self.heap is None:
            self.heap = [item]
        else:
            heappush(self.heap, item)
        self.loaded += entry.size
        return True

    def pop(self) -> Entry:
        """Take the next request out, which must be in memory."""
        assert self.heap  # noqa: S101 - refill() raises when nothing is there
        _, entry = heappop(self.heap)
        self.loaded -= entry.size
        self.pending -= 1
        if self.out is None:
            self.out = set()
        self.out.add(entry.rank)
        return entry

    def withdraw(self, unwanted: Callable[[Entry], bool]) -> list[Entry]:
        """Take out the unwanted ones of the requests that are in memory."""
        found = [entry for _, entry in self.heap or () if unwanted(entry)]
        if found:
            gone = {entry.rank for entry in found}
            kept = [item for item in self.heap or () if item[0] not in gone]
            heapify(kept)
            self.heap = kept or None
            self.pending -= len(found)
        return found

    def forget(self, rank: bytes) -> None:
        """Take note that a request that was out is not in the store any more."""
        if self.out is not None:
            self.out.discard(rank)
            if not self.out:
                self.out = None

    def refill(self, store: Store | None) -> int:
        """Bring the next requests into memory, when none is; return their bytes.

        Raises :class:`~bloomdupe.errors.StoreDamagedError` if there are none.
        """
        heap = []
        bound = AFTER_ALL
        if store is not None and self.bound < AFTER_ALL:
            here = self.out or set()
            if self.beyond:
                # A commit that is under way may have brought them there by now.
                here = here.union(rank for rank, _ in self.beyond)
            heap = [
                (rank, Entry(self, rank, payload, None, checksum))
                for rank, payload, checksum in store.requests(
                    self.number, self.bound, here, self.batch
                )
            ]
            size = sum(len(entry.payload or b"") for _, entry in heap)
            if len(heap) == self.batch or size >= READ_BYTES:
                bound = heap[-1][0]
        self.batch = min(2 * self.batch, MAX_BATCH)
        self.bound = bound
        self.heap = heap  # in order, so it is a heap
        if self.beyond or not heap:
            beyond, self.beyond = self.beyond or (), None
            self._sort_in(beyond)
        if not self.heap:
            raise self._missing(store)
        self.loaded = sum(entry.size for _, entry in self.heap)
        return self.loaded

    def _sort_in(self, items: Iterable[tuple[bytes, Entry]]) -> None:
        """Put items where they belong, given ``bound``."""
        heap = self.heap if self.heap is not None else []
        beyond = self.beyond if self.beyond is not None else []
        for item in items:
            (heap if item[0] <= self.bound else beyond).append(item)
        heapify(heap)
        self.heap = heap or None
        self.beyond = beyond or None

    def _missing(self, store: Store | None) -> Exception:
        what = f"{self.pending:,} pending requests of slot {self.name!r} are missing"
        return RuntimeError(what) if store is None else store.damaged(what)

    # After a checkpoint, when everything that can be written is in the store

    def relieve(self, keep: int) -> int:
        """Keep only the next ``keep`` bytes in memory; return how many went."""
        if self.beyond:
            # What cannot be stored stays.
            self.beyond = [item for item in self.beyond if not item[1].stored] or None
        heap, loaded = self.heap, self.loaded
        if heap is None or loaded <= keep:
            return 0
        heap.sort()
        kept = size = 0
        while size + heap[kept][1].size <= keep:
            size += heap[kept][1].size
            kept += 1
        head, rest = heap[:kept], heap[kept:]
        self.bound = head[-1][0] if head else BEFORE_ALL
        self.heap = head or None
        self.batch = MIN_BATCH
        self._sort_in(item for item in rest if not item[1].stored)
        self.loaded = sum(entry.size for _, entry in self.heap or ())
        return loaded - self.loaded
