"""Slots: all slots of a partition, and their records."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from bloomdupe.frontier.slot_queue import SlotQueue
from bloomdupe.frontier.slot_state import SlotState
from bloomdupe.store.format import DELAYED, SLOTS, StoredSlot, slot_apart, slot_record
from bloomdupe.store.store import Part

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bloomdupe.store.snapshot import Snapshot
    from bloomdupe.store.store import Store

MOST_APART = 10_000
"""States in memory of slots without requests here; the rest is read when it is needed.
Without a store, those that matter are never forgotten."""

BITS = 48
"""Bits of the number of requests of a cold slot."""
MOST_REQUESTS = (1 << BITS) - 1


class Downloader(Protocol):
    """What fetches the requests, as far as it knows slots."""

    @property
    def has_delays(self) -> bool:
        """Whether any slot may have a delay between two requests."""

    @property
    def throttled(self) -> bool:
        """Whether it changes the delays of slots."""

    def delay_of(self, name: str) -> float:
        """Return the seconds between two requests to a slot."""

    def last_request_of(self, name: str) -> float:
        """Return the Unix time of the last request; 0 if there was none."""


class Slots:
    """Slots by name: those with requests, and those of which something is remembered.

    A slot that has requests in the store has one record, under its number. If it has
    none there, and its state lasts, its record stands under a digest of its name, where
    it is looked up when the slot gets a request. A checkpoint writes the records that
    have changed.

    A slot that is *cold*, because nothing of it is in memory but its name, costs 170
    bytes: it has a number in the place of a queue until its turn comes.
    """

    def __init__(
        self, partition: Any, downloader: Downloader | None, longest: float
    ) -> None:
        """No backoff that is stored is taken to be longer than ``longest`` seconds."""
        self.partition = partition
        """The :class:`~bloomdupe.frontier.partition.Partition` whose slots they are."""
        self._store: Store | None = partition.store
        self._longest = longest
        self._set_back = 0.0
        """Seconds by which the clock was set back since the last checkpoint."""
        self._delays_of = downloader
        if downloader is not None and not downloader.has_delays:
            self._delays_of = None
        self._throttled = downloader is not None and downloader.throttled
        self.idle: deque[str] = deque()
        """Names of those with pending requests, and none in flight, by their turns:
        see :class:`bloomdupe.frontier.rotation.Rotation`."""
        self._queues: dict[str, SlotQueue | int] = {}
        """By name. The number of a cold slot, and its requests in the lowest bits."""
        self._next_number = 0
        self._detached: dict[str, SlotState] = {}
        """States of slots that are not among the queues."""
        self._most_apart = MOST_APART
        self._some_detached = False
        """Whether the store may have records of such slots."""
        # Names of slots whose states have changed, and of those in the last part.
        self._touched: set[str] = set()
        self._writing: set[str] = set()

    def restore(self, snapshot: Snapshot, clock: float) -> int:
        """Restore the slots as they are stored; count the delayed requests."""
        self._set_back = max(0.0, clock - time.time())
        delayed = 0
        for slot in snapshot.slots():
            if slot.number == DELAYED:
                delayed = slot.requests
                continue
            self._queues[slot.name] = slot.number << BITS | slot.requests
            self._next_number = slot.number + 1
            self.idle.append(slot.name)
            if slot.state and (state := self._read(slot.state)) is not None:
                self.make(slot.name).state = state
        known = len(self._queues) + (delayed > 0)
        self._some_detached = snapshot.entries(SLOTS) > known
        return delayed

    def _read(self, stored: bytes) -> SlotState | None:
        """Read a state; None if nothing in it matters any more."""
        state, now = SlotState.read(stored), time.time()
        latest, back = now + self._longest, self._set_back
        state.last = min(state.last - back, now)
        state.held = min(state.held - back, latest)
        state.until = min(state.until - back, latest)
        waits = state.last + state.delay > now
        if not self._throttled:
            state.delay = 0.0  # the settings have it
        return state if waits or state.lasts(now) else None

    # By name

    def __len__(self) -> int:
        """Count the slots with requests that are pending or in flight."""
        return len(self._queues)

    def __iter__(self) -> Iterator[SlotQueue]:
        """Yield those of these slots that are not cold."""
        return (one for one in self._queues.values() if not isinstance(one, int))

    def pending(self) -> Iterator[tuple[str, int]]:
        """Yield all of them by name, each with its number of pending requests."""
        for name, one in self._queues.items():
            yield name, one & MOST_REQUESTS if isinstance(one, int) else one.pending

    def pending_in(self, name: str) -> int:
        """Count the pending requests of a slot."""
        one = self._queues.get(name, 0)
        return one & MOST_REQUESTS if isinstance(one, int) else one.pending

    def get(self, name: str) -> SlotQueue | None:
        """Return a slot that has requests, and is not cold."""
        one = self._queues.get(name)
        return None if isinstance(one, int) else one

    def make(self, name: str) -> SlotQueue:
        """Return a slot that is about to have requests, or whose turn has come."""
        one = self._queues.get(name)
        if one is None:
            queue = SlotQueue(self._next_number, name)
            queue.state = self.state_of(name)
            self._detached.pop(name, None)
            self._next_number += 1
        elif isinstance(one, int):
            queue = SlotQueue(one >> BITS, name, one & MOST_REQUESTS)
            queue.ring = self.idle
        else:
            return one
        queue.slots = self
        self._queues[name] = queue
        return queue

    def shed(self, queue: SlotQueue) -> bool:
        """Let go of a queue if the store has all of it, or it is empty; whether it has.

        An empty one is forgotten: its slot gets another number next time. Of another,
        no more than numbers are kept.
        """
        if queue.heap or queue.beyond or queue.out or queue.active or queue.loading:
            return False
        if self._queues.get(queue.name) is queue:
            state = queue.state
            if not queue.pending:
                del self._queues[queue.name]
                if state is not None:
                    self._keep_apart(queue.name, state)
            elif state is None and queue.ring is self.idle:
                self._queues[queue.name] = queue.number << BITS | queue.stored
            else:
                return False
        return True

    def state_of(self, name: str) -> SlotState | None:
        """Return the state of a slot, if anything is remembered of it."""
        one = self._queues.get(name)
        if one is not None:
            return None if isinstance(one, int) else one.state
        state = self._detached.get(name)
        if state is None and self._some_detached and self._store is not None:
            with self._store.snapshot() as snapshot:
                stored = snapshot.get(SLOTS, slot_apart(name)[0])
                slot = None if stored is None else StoredSlot.read(0, stored)
            if slot is not None:
                state = self._read(slot.state) or SlotState()
                self._keep_apart(name, state)
        return state

    def state(self, name: str) -> SlotState:
        """Return the state of a slot, to change it; the next checkpoint writes it."""
        if self._store is not None:
            self._touched.add(name)
        state = self.state_of(name)
        if state is None:
            state = SlotState()
            if name in self._queues:
                self.make(name).state = state
            else:
                self._keep_apart(name, state)
        return state

    def _keep_apart(self, name: str, state: SlotState) -> None:
        if len(self._detached) >= self._most_apart:
            now, stored = time.time(), self._store is not None
            self._detached = {
                one: known
                for one, known in self._detached.items()
                if one in self._touched
                or one in self._writing
                or (not stored and known.lasts(now))
            }
            # As many again may come, or those that stay are looked at each time.
            self._most_apart = max(MOST_APART, 2 * len(self._detached))
        self._detached[name] = state

    # Checkpoints

    @property
    def changed(self) -> bool:
        """Whether there is any state for the next checkpoint."""
        return bool(self._touched or self._writing)

    def prepare(self, queues: Iterable[SlotQueue]) -> Part:
        """Return the part of the next checkpoint, in which these queues have changed.

        If it is not committed, the part after it contains the same.
        """
        self._writing |= self._touched
        self._touched = set()
        changed = {*queues, *filter(None, map(self.get, self._writing))}
        apart = {name: self._detached.get(name) for name in self._writing}
        changes: dict[bytes, bytes | None] = {}
        for queue in changed:
            changes.update([slot_record(self._stored(queue))])
            if queue.state is not None:
                apart[queue.name] = None if queue.stored else queue.state
        now = time.time()
        for name, state in apart.items():
            packed = state.packed() if state is not None and state.lasts(now) else b""
            changes.update([slot_apart(name, packed)])
            self._some_detached |= packed != b""

        def done() -> None:
            self._writing = set()

        return Part(changes={SLOTS: changes}, done=done)

    def _stored(self, queue: SlotQueue) -> StoredSlot:
        """Return a slot as it will be stored, with delay and last request."""
        name, state, delays = queue.name, queue.state, self._delays_of
        stored = b""
        if delays is not None and queue.number != DELAYED:
            delay, last = delays.delay_of(name), delays.last_request_of(name)
            stored = (state or SlotState()).packed(delay, last)
        elif state is not None:
            stored = state.packed()
        return StoredSlot(queue.number, queue.stored, name, stored)
