"""Frontier: the pending requests of a crawl, as bytes; they survive a crash."""

from __future__ import annotations

import math
from functools import partial
from itertools import chain
from time import monotonic, time
from typing import TYPE_CHECKING

from bloomdupe.frontier.partition import Partition
from bloomdupe.frontier.rotation import Rotation
from bloomdupe.frontier.sent_request import partition_of
from bloomdupe.frontier.slot_queue import (
    AFTER_ALL,
    NOWHERE,
    Entry,
    QueueOrder,
    SlotQueue,
)
from bloomdupe.store.format import delayed_rank
from bloomdupe.store.store import Commit, Part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeAlias

    from bloomdupe.filter.bloom import BloomFilter
    from bloomdupe.frontier.pending_requests import PendingRequest
    from bloomdupe.frontier.slot_queue import Read
    from bloomdupe.frontier.slots import Downloader, Slots
    from bloomdupe.store.store import Store

    Load: TypeAlias = Callable[[Callable[[], Read], Callable[[Read], None]], None]

NEWEST_FIRST = QueueOrder()


def _at_once(_slot: SlotQueue, _in_progress: int) -> float:
    return 0.0


class Frontier:
    """Pending and in-flight requests, and the filters of seen fingerprints.

    If the fingerprint of a request is new, the request is marked in the filter and
    *pushed*: it is *pending* in its slot, with its priority. *Popping* hands out the
    next request; *acknowledging* ends it when it is done and its children are pushed. A
    *checkpoint* writes all changes in one transaction, fingerprints included. A request
    in flight stays in the store until the checkpoint that also holds its children;
    after a crash it is pending again. So in every state of the store, **each request
    that is marked as seen is pending, in flight or done**.

    The slots are divided among *partitions*, each with a filter and its store: a crawl
    in a directory has one, and one in memory has one without a store. ``wait`` returns
    how long a slot must wait, see :class:`bloomdupe.frontier.rotation.Rotation`;
    ``downloader`` knows delays, and a stored backoff is no longer than
    ``longest_backoff`` seconds. ``clock`` gives seconds, ``wall`` Unix time.

    A request may be delayed (``not_before``): it is kept apart (see
    :class:`bloomdupe.frontier.delayed.DelayedQueue`) and joins its slot when it is due.
    Then its turn comes as if it had been pushed at that moment.
    """

    waited_for_round = False
    """Whether a round went on when this worker has joined the crawl, or began before it
    had a partition."""

    def __init__(
        self,
        seen: BloomFilter,
        *,
        order: QueueOrder = NEWEST_FIRST,
        wait: Callable[[SlotQueue, int], float] = _at_once,
        downloader: Downloader | None = None,
        longest_backoff: float = math.inf,
        clock: Callable[[], float] = monotonic,
        wall: Callable[[], float] = time,
    ) -> None:
        self._order = order
        self._clock = clock
        self._wall = wall
        self._of_all = wall, downloader, longest_backoff
        self._rotation = Rotation(wait)
        self.load: Load | None = None
        """Reads on another thread, and hands over the result; None: it does not take
        long."""
        self.partition_count = 1
        """Partitions of the crawl, wherever they are."""
        self.seen = seen
        self.all: list[Partition] = []
        self.memory = self._made(self.seen)
        """The partition of requests without payload, whatever their slots are."""
        self.partitions = {0: self.memory}
        """The partitions that are here, by number."""
        self.all.append(self.memory)

    def _made(self, seen: BloomFilter) -> Partition:
        partition = Partition(seen, self.all, *self._of_all)
        self._rotation.add(partition.slots)
        return partition

    @property
    def leads(self) -> bool:
        """Whether what belongs to the whole crawl is in its store."""
        return True

    @property
    def store(self) -> Store | None:
        """The store of what is written besides requests; None: all is in memory."""
        return self.memory.store

    # By slot

    def is_here(self, slot: str) -> bool:
        """Whether the requests of a slot are pushed here."""
        return True

    def number_of(self, slot: str) -> int:
        """Return the number of the partition of a slot."""
        return partition_of(slot, self.partition_count)

    def of_slot(self, slot: str) -> Partition:
        """Return the partition of a slot, which must be here."""
        # The hot path of nearly all crawls.
        return self.partitions[0 if self.partition_count == 1 else self.number_of(slot)]

    def slots_of(self, slot: str) -> Slots:
        """Return the slots with the state of this slot, which may be elsewhere."""
        return self.partitions.get(self.number_of(slot), self.memory).slots

    def _with_slot(self, slot: str) -> set[Slots]:
        """Return the slots that this one may be among."""
        return {self.slots_of(slot), self.memory.slots}

    def queues(self) -> Iterator[SlotQueue]:
        """Yield the slots with requests, but for those that are cold."""
        return chain.from_iterable(partition.slots for partition in self.all)

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
        """Add a request; the caller marks its fingerprint in the filter.

        ``start`` marks a start request. Without ``payload`` the request lives in memory
        only. The ``attachment`` comes back with a request that is still in memory; a
        request that was read from the store may have lost it. A request with
        ``not_before`` is not handed out before this Unix time; a time in the past has
        no effect. The ``sequence`` is the age of the request, by default the next
        number; no two may be equal. A ``volatile`` request is not written before it is
        saved (see :meth:`save`).
        """
        partition = self.memory if payload is None else self.of_slot(slot)
        entry = Entry(NOWHERE, b"", payload, attachment, volatile=volatile)
        if not_before is None or not_before <= self._wall():
            self._join(partition, entry, slot, priority, start=start, sequence=sequence)
            return entry
        entry.queue = partition.delayed
        entry.rank = delayed_rank(not_before, partition.sequence)
        entry.turn = slot, priority, start
        partition.sequence += 1
        partition.add(entry)
        return entry

    def save(self, entry: Entry) -> None:
        """Let a volatile request be written; it is pending, or in flight."""
        if entry.volatile:
            entry.volatile = False
            entry.queue.slots.partition.write(entry)

    def _join(
        self,
        partition: Partition,
        entry: Entry,
        slot: str,
        priority: int,
        *,
        start: bool,
        sequence: int | None = None,
    ) -> None:
        """Add a request to the queue of its slot."""
        if sequence is None:
            sequence = partition.sequence
        partition.sequence = max(partition.sequence, sequence) + 1
        entry.rank = self._order.rank(priority, sequence, start=start)
        queue = entry.queue = partition.slots.make(slot)
        partition.add(entry)
        if queue.ring is None:
            self._rotation.put(queue)
        partition.pending += 1

    def _move_due(self, partition: Partition) -> None:
        """Move the requests that are due into the queues of their slots.

        While other requests are pending, it moves no more than the next checkpoint
        should hold; the rest follows after the checkpoint.
        """
        delayed, now = partition.delayed, self._wall()
        while delayed.next_due <= now and not (partition.due and partition.pending):
            entry = delayed.pop()
            # In its place, what is left of it in the store is removed.
            left = Entry(delayed, entry.rank, None, stored=entry.stored)
            partition.remove(entry, left)
            entry.stored = False
            slot, priority, start = entry.turn
            self._join(partition, entry, slot, priority, start=start)

    def pop(self) -> Entry | None:
        """Hand out the next request, or return None if no request is ready."""
        for partition in self.all:
            if not partition.is_leaving:
                self._move_due(partition)
        while (queue := self._rotation.next(now := self._clock())) is not None:
            if not self._is_loaded(queue):
                continue
            entry, partition = queue.pop(), queue.slots.partition
            if not queue.pending:
                self._rotation.leave(queue)
            entry.active, queue.handed_out = True, now
            self._rotation.count(queue, 1)
            partition.pending -= 1
            partition.unacked += 1
            return entry
        return None

    def hold(self) -> Entry:
        """Return what counts as a request in flight: it is in memory only."""
        memory = self.memory
        queue = memory.slots.make("")
        rank = self._order.rank(0, memory.sequence, start=False)
        memory.sequence += 1
        memory.unacked += 1
        queue.out.add(rank)
        return Entry(queue, rank, None)

    def _is_loaded(self, queue: SlotQueue) -> bool:
        """Whether a slot that has its turn can hand out a request, maybe after reading.

        If reading takes long, the slot is parked until it is done.
        """
        while not queue.heap:
            if self.load is not None and queue.bound < AFTER_ALL:
                self._rotation.park(queue, math.inf)
                if not queue.loading:
                    queue.loading = True
                    self.load(queue.reading(), partial(self._take_in, queue))
                return False
            self._take_in(queue, queue.reading()())
        return True

    def _take_in(self, queue: SlotQueue, read: Read) -> None:
        partition = queue.slots.partition
        if partition not in self.all or queue.slots.get(queue.name) is not queue:
            return  # all was dropped meanwhile
        queue.loading = False
        queue.take_in(read)
        self._rotation.ask_again(queue)

    def remove(self, found: Iterable[PendingRequest]) -> None:
        """Remove requests of the stores; there is nothing that these do not have."""
        for one in found:
            partition = self.of_slot(one.slot)
            delayed = one.not_before is not None
            queue = partition.delayed if delayed else partition.slots.make(one.slot)
            queue.pending -= 1
            queue.out.add(one.key)
            queue.relieve()
            entry = Entry(queue, one.key, None, stored=True)
            partition.remove(entry, entry)
            if delayed:
                continue
            partition.pending -= 1
            if not queue.pending:
                self._rotation.leave(queue)

    def release(self, entry: Entry) -> None:
        """Free the place that a request in flight holds in its slot."""
        if entry.active:
            entry.active = False
            self._rotation.count(entry.queue, -1)

    def leave(self, entry: Entry) -> None:
        """Give up a request in flight, which this run cannot end; it stays stored."""
        self.release(entry)
        entry.queue.slots.partition.left.add(entry)

    def ack(self, entry: Entry) -> None:
        """Remove a request in flight that is done; its children have been pushed."""
        self.release(entry)
        partition = entry.queue.slots.partition
        partition.left.discard(entry)
        partition.unacked -= 1
        partition.remove(entry, entry)

    def seconds_until_ready(self) -> float | None:
        """Return the seconds until a further slot is ready, or None if unknown.

        A slot becomes ready, too, when a delayed request is due.
        """
        alarm = self._rotation.next_alarm()
        seconds = math.inf if alarm is None else alarm - self._clock()
        seconds = min(seconds, self.next_due - self._wall())
        return None if seconds == math.inf else max(0.0, seconds)

    def ask_again(self, slot: str) -> None:
        """Ask a slot again, because it may be ready sooner than it has said."""
        for slots in self._with_slot(slot):
            queue = slots.get(slot)
            if queue is not None:
                self._rotation.ask_again(queue)

    # Counts

    @property
    def pending(self) -> int:
        """Requests that are pending in their slots."""
        return sum(partition.pending for partition in self.all)

    @property
    def unacked(self) -> int:
        """Requests handed out and not acknowledged."""
        return sum(partition.unacked for partition in self.all)

    @property
    def waiting(self) -> int:
        """Delayed requests."""
        return sum(partition.delayed.pending for partition in self.all)

    @property
    def next_due(self) -> float:
        """Unix time at which the next of these is due; infinite without any."""
        return min(partition.delayed.next_due for partition in self.all)

    def pending_in(self, slot: str) -> int:
        """Count the pending requests of a slot, if it is here."""
        return sum(slots.pending_in(slot) for slots in self._with_slot(slot))

    def pending_by_slot(self) -> Iterator[tuple[str, int]]:
        """Yield all slots with requests, each with its number of pending requests."""
        return chain.from_iterable(partition.slots.pending() for partition in self.all)

    @property
    def slot_count(self) -> int:
        """Slots with requests that are pending or in flight."""
        return sum(len(partition.slots) for partition in self.all)

    # Reaching the store

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return self.memory.changed

    @property
    def due(self) -> bool:
        """Whether a checkpoint should not wait, also if one is out."""
        for partition in self.all:  # noqa: SIM110 - any() takes twice the time
            if partition.due:
                return True
        return False

    @property
    def overdue(self) -> bool:
        """Whether a checkpoint must not wait for anything."""
        return any(partition.overdue for partition in self.all)

    def checkpoint(self, *others: Part) -> None:
        """Make everything durable in one transaction, together with more parts.

        If it fails, the last checkpoint stands, and the next one tries again.
        """
        if others or self.changed:
            commit = self.begin(others)
            commit.send()
            commit.done()

    def begin(self, parts: Sequence[Part]) -> Commit:
        """Begin a commit of everything, together with more parts."""
        if self.store is None:
            return Commit([*parts, Part(done=self.seen.checkpoint)])
        others = (one for part in parts for one in part.partitions.values())
        return self.store.begin(self.memory.prepare(), *parts, *others)

    def join(self) -> bool:
        """Go on from the last commit if another worker may have written since.

        Returns whether any partition is here.
        """
        return True
