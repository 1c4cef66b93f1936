"""Partition: requests of some slots, in one store with the filter that knows them."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from bloomdupe.frontier.delayed import DelayedQueue
from bloomdupe.frontier.slots import Slots
from bloomdupe.store.format import META, QUEUE, meta_records, request_key
from bloomdupe.store.store import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bloomdupe.filter.bloom import BloomFilter
    from bloomdupe.frontier.slot_queue import Entry, SlotQueue
    from bloomdupe.frontier.slots import Downloader
    from bloomdupe.store.store import Store

RECORD = "frontier"

MAX_FRESH = 3 << 19
"""Bytes of unwritten requests after which a checkpoint is due at once: some 1,200
requests of usual size in a slot, or 500 in as many slots. A checkpoint stops the
crawl, and takes some 20 ms then. See :attr:`Entry.size`."""

OVERDUE = 8
"""A checkpoint that is due waits for pages at work up to so many :data:`MAX_FRESH`."""

SLOT_BYTES = 2_000
"""Bytes that a slot with new requests counts for besides them: its requests and its
number of requests are in pages that other slots of the checkpoint seldom share."""

MAX_LOADED = 6 << 20
"""Bytes of requests kept in memory, over all slots and of the delayed ones, when a
checkpoint has written them."""


class Partition:
    """A part of a :class:`~bloomdupe.frontier.frontier.Frontier`, with its own store.

    It knows which requests are to be written and removed, and makes the part of the
    next checkpoint. If that is not committed, the part after it contains the same.
    It uses the store of the filter ``seen`` and controls the filter from now on;
    without a store both live in memory. ``everyone`` shares the memory for loaded
    requests.

    The record ``frontier`` of the store is a JSON object:

    ``sequence``  requests numbered so far
    ``clock``     Unix time of the checkpoint
    """

    def __init__(
        self,
        seen: BloomFilter,
        everyone: Sequence[Partition],
        wall: Callable[[], float],
        downloader: Downloader | None,
        longest_backoff: float,
    ) -> None:
        self.seen = seen
        self.store = seen.share_store()
        self._everyone = everyone
        self._wall = wall
        self.slots = Slots(self, downloader, longest_backoff)
        """The slots with requests that are pending or in flight, and their states."""
        self.is_leaving = False
        """Whether nothing of it is handed out any more: another worker gets it."""
        self.sequence = 0
        self.pending = 0
        """Requests that are pending in their slots."""
        self.unacked = 0
        """Requests handed out and not acknowledged."""
        self.left: set[Entry] = set()
        """Those of them that were given up."""
        self.loaded = 0
        """Bytes of the requests in the heaps of the queues."""
        self.evictable: dict[SlotQueue, None] = {}
        """Queues with requests in memory, the least recently asked first."""
        # Requests to write and to remove that came after the last part was prepared.
        self._fresh: dict[Entry, None] = {}
        self._acked: dict[Entry, None] = {}
        self._new_bytes = 0
        self._new_slots: set[SlotQueue] = set()
        # Those in the part that was prepared last, until it is committed.
        self._writing: dict[Entry, None] = {}
        self._removing: dict[Entry, None] = {}
        delayed = 0 if self.store is None else self._recover(self.store)
        self.delayed = DelayedQueue(self.slots, delayed)

    def _recover(self, store: Store) -> int:
        """Restore the last checkpoint; requests in flight are pending again.

        Returns the number of delayed requests.
        """
        with store.snapshot() as snapshot:
            record = snapshot.record(RECORD) or {}
            self.sequence = record.get("sequence", 0)
            delayed = self.slots.restore(snapshot, record.get("clock", 0.0))
            stored = snapshot.entries(QUEUE)
        self.pending = sum(pending for _, pending in self.slots.pending())
        if self.pending + delayed != stored:
            raise snapshot.damaged(
                f"the slots account for {self.pending + delayed:,} requests, but"
                f" {stored:,} were written"
            )
        return delayed

    @property
    def in_flight(self) -> int:
        """Requests in flight that were not given up."""
        return self.unacked - len(self.left)

    # What is to be written and removed

    def add(self, entry: Entry) -> None:
        """Add a request to its queue."""
        entry.queue.push(entry)
        self.evictable[entry.queue] = None
        self.write(entry)

    def write(self, entry: Entry) -> None:
        """Let the next checkpoint write a request, if it can be stored."""
        if self.store is None or entry.payload is None or entry.volatile:
            return
        queue = entry.queue
        self._fresh[entry] = None
        queue.stored += 1
        self._new_bytes += entry.size
        if queue not in self._new_slots:
            self._new_slots.add(queue)
            self._new_bytes += SLOT_BYTES

    def lacks(self, entry: Entry) -> bool:
        """Whether no commit has written a request yet that is to be written."""
        return entry in self._fresh or entry in self._writing

    def remove(self, entry: Entry, left: Entry) -> None:
        """Let a checkpoint remove a request from its table, if it may be there.

        ``left`` stands for it there from now on.
        """
        queue = entry.queue
        if entry.stored:
            self._writing.pop(entry, None)
            self._acked[left] = None
            queue.stored -= 1
            return
        if entry in self._fresh:
            del self._fresh[entry]
            queue.stored -= 1
        queue.out.discard(entry.rank)
        self._shed(queue)

    def _shed(self, queue: SlotQueue) -> None:
        if not queue.heap and self.slots.shed(queue):
            self.evictable.pop(queue, None)

    # Checkpoints

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        new = self._fresh or self._acked or self.slots.changed
        return bool(new or self._writing or self._removing or self.seen.changed)

    @property
    def due(self) -> bool:
        """Whether a checkpoint should not wait, also if one is out."""
        return (self._new_bytes >= MAX_FRESH and bool(self._fresh)) or self.seen.due

    @property
    def overdue(self) -> bool:
        """Whether a checkpoint must not wait for anything."""
        return self._new_bytes >= OVERDUE * MAX_FRESH or self.seen.due

    def prepare(self) -> Part:
        """Return the part of the next checkpoint, fingerprints included.

        It takes time to commit it, and requests may be pushed, handed out and
        acknowledged meanwhile: everything after this call belongs to the next
        checkpoint. Once it is committed, call ``done`` before anything else is
        prepared. If it is not committed, it can just be dropped; it cannot be written
        any more once the next part is prepared.
        """
        seen = self.seen.prepare()
        self._writing.update(self._fresh)
        self._removing.update(self._acked)
        self._fresh, self._acked = {}, {}
        self._new_bytes, self._new_slots = 0, set()
        # A dict of bytes is nothing that Python's garbage collector follows. With lists
        # and tuples here, it took as long as all the rest of this method.
        requests: dict[bytes, bytes | None] = {}
        for entry in self._writing:
            entry.stored = True
            queue = entry.queue
            requests[request_key(queue.number, entry.rank)] = queue.stored_value(entry)
        for entry in self._removing:
            requests[request_key(entry.queue.number, entry.rank)] = None
        queues = {entry.queue for entry in chain(self._writing, self._removing)}
        slots = self.slots.prepare(queues)
        record = {"sequence": self.sequence, "clock": round(self._wall(), 3)}

        def done() -> None:
            try:
                seen.done()
            finally:
                slots.done()
                self._written(queues)

        changes = {**seen.changes, **slots.changes, QUEUE: requests}
        changes[META] = {**seen.changes[META], **meta_records({RECORD: record})}
        return Part(changes=changes, done=done)

    def _written(self, queues: Iterable[SlotQueue]) -> None:
        """Note that a checkpoint is durable, in which these queues have changed.

        Takes time in proportion to the size of the checkpoint.
        """
        self._writing = {}
        for entry in self._removing:
            entry.queue.out.discard(entry.rank)
        self._removing = {}
        for queue in queues:
            queue.written()
        self._relieve()
        for queue in queues:
            self._shed(queue)

    def _relieve(self) -> None:
        """Free memory, now that everything is on disk."""
        most = MAX_LOADED // len(self._everyone)
        if self.loaded > most:
            for queue in [*self.evictable]:
                if self.loaded <= most // 2:
                    break
                del self.evictable[queue]
                queue.relieve()
                self._shed(queue)
