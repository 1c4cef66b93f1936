"""Frontier: the pending requests of a crawl, as bytes; they survive a crash."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial
from time import monotonic, time
from typing import TYPE_CHECKING

from bloomdupe.frontier.delayed import DelayedQueue, Waiting
from bloomdupe.frontier.rotation import Rotation
from bloomdupe.frontier.slot_queue import AFTER_ALL, Entry, SlotQueue, rank_of
from bloomdupe.frontier.slots import Slots
from bloomdupe.store.format import DELAYED, META, QUEUE, meta_records, request_key
from bloomdupe.store.store import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeAlias

    from bloomdupe.filter.bloom import BloomFilter
    from bloomdupe.frontier.pending_requests import PendingRequest
    from bloomdupe.frontier.slot_queue import Read
    from bloomdupe.frontier.slots import Downloader
    from bloomdupe.store.store import Commit, Store

    Load: TypeAlias = Callable[[Callable[[], Read], Callable[[Read], None]], None]

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

MAX_HEAD = 640 << 10
"""The same limit for a single slot."""

MOST_MOVED = 320 << 10
"""Bytes of due requests that join their slots at once."""


def at_once(_slot: SlotQueue, _in_progress: int) -> float:
    """Return that a slot need not wait."""
    return 0.0


class Frontier:
    """Pending and in-flight requests, and the filter of seen fingerprints.

    If the fingerprint of a request is new, the request is marked in :attr:`seen` and
    *pushed*: it is *pending* in its slot, with its priority. *Popping* hands out the
    next request; *acknowledging* ends it when it is done and its children are pushed. A
    *checkpoint* writes all changes in one transaction, fingerprints included. A request
    in flight stays in the store until the checkpoint that also holds its children;
    after a crash it is pending again. So in every state of the store, **each request
    that is marked as seen is pending, in flight or done**.

    The frontier uses the store of the filter ``seen`` and controls the filter from now
    on; without a store both live in memory. ``fifo`` takes the oldest request first,
    ``start_fifo`` the oldest start request. ``wait`` returns how long a slot must wait,
    see :class:`bloomdupe.frontier.rotation.Rotation`; ``downloader`` knows delays, and
    a stored backoff is no longer than ``longest_backoff`` seconds. Several frontiers
    may have one ``rotation``. If reading waits for a network, ``load`` runs it on
    another thread and hands over its result. ``clock`` gives seconds, ``wall`` Unix
    time.

    A request may be delayed (``not_before``): it is kept apart (see
    :class:`bloomdupe.frontier.delayed.DelayedQueue`) and joins its slot when it is due.
    Then its turn comes as if it had been pushed at that moment.

    The record ``frontier`` of the store is a JSON object:

    ``sequence``  requests numbered so far
    ``numbered``  slots numbered so far
    ``clock``     Unix time of the checkpoint
    """

    def __init__(
        self,
        seen: BloomFilter,
        *,
        fifo: bool = False,
        start_fifo: bool = True,
        wait: Callable[[SlotQueue, int], float] = at_once,
        downloader: Downloader | None = None,
        longest_backoff: float = math.inf,
        rotation: Rotation | None = None,
        load: Load | None = None,
        clock: Callable[[], float] = monotonic,
        wall: Callable[[], float] = time,
    ) -> None:
        self.seen = seen
        self._store = seen.share_store()
        self._fifo = fifo
        self._start_fifo = start_fifo
        self._wait = wait
        self._clock = clock
        self._wall = wall
        self._load = None
        if self._store is not None and self._store.remote:
            self._load = load
        self._shared = rotation
        self.sharers = 1
        """Frontiers in this process, which share the memory for loaded requests."""
        self.slots = Slots(self._store, downloader, longest_backoff)
        """The slots with requests that are pending or in flight, and their states."""
        self.slots.frontier = self
        self._begin()

    leads = True
    """Whether what belongs to the whole crawl is in its store."""

    @property
    def frontiers(self) -> dict[int, Frontier]:
        """The frontiers by partition: it is all there is."""
        return {0: self}

    def of_slot(self, slot: str) -> Frontier:
        """Return the frontier of a slot."""
        return self

    def is_here(self, slot: str) -> bool:
        """Whether the requests of a slot are pushed here."""
        return True

    def drop(self) -> None:
        """Leave the rotation that it shares: it is not used any more."""
        self._rotation.drop(self.slots)

    def read_again(self) -> None:
        """Forget what is in memory, and go on from the last checkpoint.

        That includes seen fingerprints. No entry of before may be used any more. What
        is known of servers stays.
        """
        self.drop()
        if self._store is not None:
            self._store.own_again()
        self.seen.read_again()
        self._begin()

    def _begin(self) -> None:
        self._rotation = self._shared or Rotation(self._wait)
        self._rotation.add(self.slots)
        self._sequence = 0
        self.pending = 0
        """Requests that are pending in their slots."""
        self.unacked = 0
        """Requests handed out and not acknowledged."""
        self._left: set[Entry] = set()
        self._loaded = 0
        # Queues with requests in memory, the least recently asked first.
        self._evictable: dict[SlotQueue, None] = {}
        # Requests for the next checkpoint to write and to remove.
        self._fresh: dict[Entry, None] = {}
        self._acked: dict[Entry, None] = {}
        # What has come since the last one was prepared.
        self._new_bytes = 0
        self._new_slots: set[SlotQueue] = set()
        self._prepared: dict[Entry, None] = {}
        """Requests that are being written, if a commit is in progress."""
        delayed = 0
        if self._store is not None:
            delayed = self._recover(self._store)
        self._delayed = DelayedQueue(self.slots, self._store, delayed)

    def _recover(self, store: Store) -> int:
        """Restore the last checkpoint; requests in flight are pending again.

        Returns the number of delayed requests.
        """
        with store.snapshot() as snapshot:
            record = snapshot.record(RECORD) or {}
            self._sequence = record.get("sequence", 0)
            numbered, clock = record.get("numbered", 0), record.get("clock", 0.0)
            self.slots.restore(snapshot, numbered, clock)
            stored, delayed = snapshot.entries(QUEUE), snapshot.entries(DELAYED)
        self.pending = sum(pending for _, pending in self.slots.pending())
        if self.pending != stored:
            raise store.damaged(
                f"the slots account for {self.pending:,} requests, but {stored:,} were"
                " written"
            )
        return delayed

    # The life of a request

    def push(
        self,
        slot: str,
        priority: int,
        payload: bytes | None,
        *,
        start: bool = False,
        attachment: object = None,
        not_before: float | None = None,
        sequence: int | None = None,
        volatile: bool = False,
    ) -> Entry:
        """Add a request; the caller has marked its fingerprint in :attr:`seen`.

        ``start`` marks a start request (see
        :func:`bloomdupe.frontier.slot_queue.rank_of`). Without ``payload`` the request
        lives in memory only. The ``attachment`` comes back with a request that is still
        in memory; a request that was read from the store may have lost it. A request
        with ``not_before`` is not handed out before this Unix time; a time in the past
        has no effect. The ``sequence`` is the age of the request, by default the next
        number; no two may be equal. A ``volatile`` request is not written before it is
        saved (see :meth:`save`).
        """
        if not_before is not None and not_before > self._wall():
            waiting = Waiting(
                slot, priority, payload, attachment, start=start, volatile=volatile
            )
            self._delayed.schedule(waiting, not_before, self._sequence)
            self._sequence += 1
            self._write(waiting)
            return waiting
        queue = self.slots.make(slot)
        rank = self._next_rank(priority, sequence, start=start)
        entry = Entry(queue, rank, payload, attachment, volatile=volatile)
        self._join(entry)
        return entry

    def save(self, entry: Entry) -> None:
        """Let a volatile request be written; it is pending, or in flight."""
        if not entry.volatile:
            return
        entry.volatile = False
        self._write(entry)

    def _next_rank(
        self, priority: int, sequence: int | None = None, *, start: bool
    ) -> bytes:
        fifo = self._start_fifo if start else self._fifo
        if sequence is None:
            sequence = self._sequence
        self._sequence = max(self._sequence, sequence) + 1
        return rank_of(priority, sequence, start=start, fifo=fifo)

    def _join(self, entry: Entry) -> None:
        """Add a request to the queue of its slot."""
        queue = entry.queue
        if queue.push(entry):
            self._loaded += entry.size
            self._evictable[queue] = None
        if queue.ring is None:
            self._rotation.join(queue)
        self.pending += 1
        self._write(entry)

    def _write(self, entry: Entry) -> None:
        """Let the next checkpoint write a request, if it can be stored."""
        if self._store is None or entry.payload is None or entry.volatile:
            return
        self._fresh[entry] = None
        self._new_bytes += entry.size
        if entry.queue not in self._new_slots:
            self._new_slots.add(entry.queue)
            self._new_bytes += SLOT_BYTES

    @property
    def waiting(self) -> int:
        """Number of delayed requests."""
        return self._delayed.pending

    @property
    def next_due(self) -> float:
        """Unix time at which the next of these is due; infinite without any."""
        return self._delayed.next_due

    def move_due(self) -> None:
        """Move the requests that are due into the queues of their slots.

        While other requests are pending, it moves no more than the next checkpoint
        should hold; the rest follows after the checkpoint.
        """
        delayed, now, most = self._delayed, self._wall(), MOST_MOVED
        if delayed.next_due > now or (self.due and self.pending):
            return
        while delayed.next_due <= now and most > 0:
            entry = delayed.take()
            most -= entry.size
            # In its place, what is left of it in the store is removed.
            left = Entry(delayed, entry.rank, None, stored=entry.stored)
            self._remove(entry, left)
            entry.stored = False
            entry.queue = self.slots.make(entry.slot)
            entry.rank = self._next_rank(entry.priority, start=entry.start)
            self._join(entry)

    def pending_in(self, slot: str) -> int:
        """Count the pending requests of a slot."""
        return self.slots.pending_in(slot)

    def pending_by_slot(self) -> Iterator[tuple[str, int]]:
        """Yield the slots, each with its number of pending requests."""
        return self.slots.pending()

    def pop(self) -> Entry | None:
        """Hand out the next request, or return None if no request is ready."""
        self.move_due()
        queue = self._rotation.next(self._clock())
        while queue is not None and not self.is_loaded(queue):
            queue = self._rotation.next(self._clock())
        return None if queue is None else self.pop_from(queue)

    def is_loaded(self, queue: SlotQueue) -> bool:
        """Whether a slot that has its turn can hand out a request, maybe after reading.

        If reading waits for a network, the slot is parked until it is done.
        """
        store = self._store
        while not queue.heap:
            assert store is not None  # noqa: S101 - or all are in memory
            if self._load is not None and queue.bound < AFTER_ALL:
                self._rotation.park(queue)
                if not queue.loading:
                    queue.loading = True
                    self._load(queue.reading(store), partial(self._take_in, queue))
                return False
            self._take_in(queue, queue.reading(store)())
        return True

    def _take_in(self, queue: SlotQueue, read: Read) -> None:
        if self.slots.get(queue.name) is not queue or self._store is None:
            return  # all was dropped meanwhile
        queue.loading = False
        self._loaded += queue.take_in(read, self._store)
        self._evictable[queue] = None
        self._rotation.ask_again(queue)

    def pop_from(self, queue: SlotQueue) -> Entry:
        """Hand out the next request of a slot, which has one in memory."""
        entry = queue.pop()
        self._loaded -= entry.size
        if not queue.pending:
            self._rotation.leave(queue)
        entry.active = True
        self._rotation.took(queue)
        self.pending -= 1
        self.unacked += 1
        return entry

    def remove(self, found: Iterable[PendingRequest]) -> None:
        """Remove requests of the store; there is nothing that it does not have."""
        delayed = self._delayed
        for one in found:
            queue = self.slots.make(one.slot) if one.delayed is None else delayed
            freed = queue.relieve(0)
            queue.pending -= 1
            queue.out = {*(queue.out or ()), one.key}
            self._acked[Entry(queue, one.key, None, stored=True)] = None
            if queue is delayed:
                continue
            self._loaded -= freed
            self.pending -= 1
            if not queue.pending:
                self._rotation.leave(queue)
        delayed.find_next()

    def release(self, entry: Entry) -> None:
        """Free the place that a request in flight holds in its slot."""
        if entry.active:
            entry.active = False
            self._rotation.freed(entry.queue)

    def leave(self, entry: Entry) -> None:
        """Give up a request in flight, which this run cannot end; it stays stored."""
        self.release(entry)
        self._left.add(entry)

    @property
    def left(self) -> int:
        """Requests in flight that were given up."""
        return len(self._left)

    @property
    def in_flight(self) -> int:
        """Requests in flight that were not given up."""
        return self.unacked - len(self._left)

    def ack(self, entry: Entry) -> None:
        """Remove a request in flight that is done; its children have been pushed."""
        self.release(entry)
        self._left.discard(entry)
        self.unacked -= 1
        self._remove(entry, entry)

    def _remove(self, entry: Entry, left: Entry) -> None:
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

    def seconds_until_ready(self) -> float | None:
        """Return the seconds until a further slot is ready, or None if unknown.

        A slot becomes ready, too, when a delayed request is due.
        """
        alarm = self._rotation.next_alarm()
        seconds = math.inf if alarm is None else alarm - self._clock()
        seconds = min(seconds, self._delayed.next_due - self._wall())
        return None if seconds == math.inf else max(0.0, seconds)

    def ask_again(self, slot: str) -> None:
        """Ask a slot again, because it may be ready sooner than it has said."""
        queue = self.slots.get(slot)
        if queue is not None:
            self._rotation.ask_again(queue)

    def _tidy(self, queue: SlotQueue) -> None:
        """Forget a queue if it is empty."""
        if self.slots.tidy(queue):
            self._evictable.pop(queue, None)

    # Reaching the store

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return bool(self._fresh or self._acked or self.seen.changed)

    @property
    def due(self) -> bool:
        """Whether a checkpoint should not wait, also if one is out."""
        return (self._new_bytes >= MAX_FRESH and bool(self._fresh)) or self.seen.due

    @property
    def store(self) -> Store | None:
        """The store, or None if the frontier is in memory."""
        return self._store

    def checkpoint(self, *others: Part) -> None:
        """Make everything durable in one transaction, together with more parts.

        If it fails, the last checkpoint stands, and the next one tries again.
        """
        if self._store is None:
            self.seen.checkpoint()
        elif others or self.changed:
            self._store.commit(self.prepare(), *others)

    def begin(self, parts: Sequence[Part], more: int = 0) -> Commit:
        """Begin a commit of everything, together with more parts.

        ``more`` counts the work besides requests, for other workers; here are
        none.
        """
        del more
        assert self._store is not None  # noqa: S101 - nothing else can be committed
        others = (one for part in parts for one in part.partitions.values())
        return self._store.begin(self.prepare(), *parts, *others)

    def prepare(self) -> Part:
        """Return the part of the next checkpoint, fingerprints included.

        It takes time to commit it, and requests may be pushed, in-flight and
        acknowledged meanwhile: everything after this call belongs to the next
        checkpoint. Once it is committed, call ``done`` before anything else is
        prepared. If it is not committed, it can just be dropped: preparing the next
        part gives it up, and it cannot be written any more.
        """
        self._give_up()
        seen = self.seen.prepare()
        delayed = self._delayed
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
            "sequence": self._sequence,
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
                self._delayed.written(scheduled)

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
            queue.stored = number
        self._relieve(stored)
        for queue in stored:
            if not queue.pending:
                self._tidy(queue)
            elif not queue.heap and self.slots.cool(queue):
                self._evictable.pop(queue, None)

    def _relieve(self, queues: Iterable[SlotQueue]) -> None:
        """Free memory, now that everything is on disk."""
        for queue in queues:
            if queue.beyond or queue.loaded > MAX_HEAD:
                self._loaded -= queue.relieve(MAX_HEAD)
        most = MAX_LOADED // self.sharers
        if self._loaded > most:
            while self._evictable and self._loaded > most // 2:
                queue = next(iter(self._evictable))
                del self._evictable[queue]
                self._loaded -= queue.relieve(0)
                self.slots.cool(queue)
