"""Partition: requests of some slots, in one store with the filter that knows them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from bloomdupe.frontier.delayed import DelayedQueue
from bloomdupe.frontier.slots import Slots
from bloomdupe.store.format import DELAYED, META, QUEUE, meta_records, request_key
from bloomdupe.store.store import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bloomdupe.filter.bloom import BloomFilter
    from bloomdupe.frontier.slot_queue import Entry, SlotQueue
    from bloomdupe.frontier.slots import Downloader
    from bloomdupe.store.store import Store

RECORD = "frontier"

MAX_FRESH = 3 << 20
"""Bytes of unwritten requests after which a checkpoint is due at once: some 2,400
requests of usual size in a slot, or 1,000 in as many slots. A checkpoint stops the
crawl, and takes some 20 ms then. See :attr:`Entry.size`."""

SLOT_BYTES = 2_000
"""Bytes that a slot with new requests counts for besides them: its requests and its
number of requests are in pages that other slots of the checkpoint seldom share."""

MAX_LOADED = 6 << 20
"""Bytes of requests kept in memory, over all slots, when a checkpoint has written
them."""


class Partition:
    """A part of a :class:`~bloomdupe.frontier.frontier.Frontier`, with its own store.

    It knows which requests are to be written and removed, and makes the part of the
    next checkpoint. It uses the store of the filter ``seen`` and controls the filter
    from now on; without a store both live in memory. ``everyone`` shares the memory
    for loaded requests.

    The record ``frontier`` of the store is a JSON object:

    ``sequence``  requests numbered so far
    ``numbered``  slots numbered so far
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
        """Bytes of requests in memory."""
        self.evictable: dict[SlotQueue, None] = {}
        """Queues with requests in memory, the least recently asked first."""
        # Requests for the next checkpoint to write and to remove.
        self._fresh: dict[Entry, None] = {}
        self._acked: dict[Entry, None] = {}
        # What has come since the last one was prepared.
        self._new_bytes = 0
        self._new_slots: set[SlotQueue] = set()
        self._prepared: dict[Entry, None] = {}
        """Requests that are being written, if a commit is in progress."""
        delayed = 0 if self.store is None else self._recover(self.store)
        self.delayed = DelayedQueue(self.slots, delayed)

    def _recover(self, store: Store) -> int:
        """Restore the last checkpoint; requests in flight are pending again.

        Returns the number of delayed requests.
        """
        with store.snapshot() as snapshot:
            record = snapshot.record(RECORD) or {}
            self.sequence = record.get("sequence", 0)
            numbered, clock = record.get("numbered", 0), record.get("clock", 0.0)
            self.slots.restore(snapshot, numbered, clock)
            stored, delayed = snapshot.entries(QUEUE), snapshot.entries(DELAYED)
        self.pending = sum(pending for _, pending in self.slots.pending())
        if self.pending != stored:
            raise snapshot.damaged(
                f"the slots account for {self.pending:,} requests, but {stored:,} were"
                " written"
            )
        return delayed

    @property
    def in_flight(self) -> int:
        """Requests in flight that were not given up."""
        return self.unacked - len(self.left)

    # What is to be written and removed

    def write(self, entry: Entry) -> None:
        """Let the next checkpoint write a request, if it can be stored."""
        if self.store is None or entry.payload is None or entry.volatile:
            return
        self._fresh[entry] = None
        self._new_bytes += entry.size
        if entry.queue not in self._new_slots:
            self._new_slots.add(entry.queue)
            self._new_bytes += SLOT_BYTES

    def remove(self, entry: Entry, left: Entry) -> None:
        """Let a checkpoint remove a request from its table, if it is there by then.

        ``left`` stands for it there from now on.
        """
        if entry.stored:
            self._acked[left] = None
            return
        self._fresh.pop(entry, None)
        if entry in self._prepared:  # it may be in the store by now: see _give_up()
            del self._prepared[entry]
            self._prepared[left] = None
        else:
            entry.queue.forget(entry.rank)
            self._tidy(entry.queue)

    def _tidy(self, queue: SlotQueue) -> None:
        """Forget a queue if it is empty."""
        if self.slots.tidy(queue):
            self.evictable.pop(queue, None)

    # Checkpoints

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return bool(self._fresh or self._acked or self.seen.changed)

    @property
    def due(self) -> bool:
        """Whether a checkpoint should not wait, also if one is out."""
        return (self._new_bytes >= MAX_FRESH and bool(self._fresh)) or self.seen.due

    def prepare(self) -> Part:
        """Return the part of the next checkpoint, fingerprints included.

        It takes time to commit it, and requests may be pushed, handed out and
        acknowledged meanwhile: everything after this call belongs to the next
        checkpoint. Once it is committed, call ``done`` before anything else is
        prepared. If it is not committed, it can just be dropped: preparing the next
        part gives it up, and it cannot be written any more.
        """
        self._give_up()
        seen = self.seen.prepare()
        delayed = self.delayed
        stored = Counter(entry.queue for entry in self._fresh)
        # A dict of bytes is nothing that Python's garbage collector follows. With lists
        # and tuples here, it took as long as all the rest of this method.
        requests: dict[bytes, bytes | None] = {}
        waiting: dict[bytes, bytes | None] = {}
        for entry in self._fresh:
            queue = entry.queue
            if queue is delayed:
                key, value = delayed.record_of(entry)
                waiting[key] = value
            else:
                requests[request_key(queue.number, entry.rank)] = entry.payload
        for entry in self._acked:
            queue = entry.queue
            if queue is delayed:
                waiting[entry.rank] = None
            else:
                requests[request_key(queue.number, entry.rank)] = None
            stored[queue] -= 1
        for queue in stored:
            stored[queue] += queue.stored
        scheduled = stored.pop(delayed, delayed.stored)
        slots = self.slots.prepare(stored)
        record = {
            "sequence": self.sequence,
            "numbered": self.slots.numbered,
            "clock": round(self._wall(), 3),
        }
        written = self._prepared = self._fresh.copy()
        acked = [*self._acked]
        self._new_bytes, self._new_slots = 0, set()

        def done() -> None:
            try:
                seen.done()
            finally:
                slots.done()
                self._written(written, acked, stored)
                self.delayed.written(scheduled)

        changes = {**seen.changes, **slots.changes, QUEUE: requests, DELAYED: waiting}
        changes[META] = {**seen.changes[META], **meta_records({RECORD: record})}
        return Part(changes=changes, exact=seen.exact, done=done)

    def _give_up(self) -> None:
        """Forget a part that was prepared and never committed."""
        for entry in self._prepared:
            if entry not in self._fresh:  # acknowledged since, and not in the store
                entry.queue.forget(entry.rank)
                self._tidy(entry.queue)
        self._prepared = {}

    def _written(
        self,
        written: dict[Entry, None],
        acked: list[Entry],
        stored: dict[SlotQueue, int],
    ) -> None:
        """Mark the content of a checkpoint as durable, and nothing newer.

        Takes time in proportion to the size of the checkpoint. ``stored`` has all
        queues with changes, and the number of requests that are stored now.
        """
        self._prepared = {}
        for entry in written:
            entry.stored = True
            if entry in self._fresh:
                del self._fresh[entry]
            else:  # acknowledged since: the next checkpoint deletes it
                self._acked[entry] = None
        for entry in acked:
            del self._acked[entry]
            entry.queue.forget(entry.rank)
        for queue, number in stored.items():
            queue.written(number)
        self._relieve()
        for queue in stored:
            if not queue.pending:
                self._tidy(queue)
            elif not queue.heap and self.slots.cool(queue):
                self.evictable.pop(queue, None)

    def _relieve(self) -> None:
        """Free memory, now that everything is on disk."""
        most = MAX_LOADED // len(self._everyone)
        if self.loaded > most:
            while self.evictable and self.loaded > most // 2:
                queue = next(iter(self.evictable))
                del self.evictable[queue]
                self.loaded -= queue.relieve()
                self.slots.cool(queue)
