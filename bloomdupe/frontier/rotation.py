"""Rotation: chooses the least busy slot, in turn among equals."""

from __future__ import annotations

from collections import OrderedDict, deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from bloomdupe.frontier.slot_queue import SlotQueue
    from bloomdupe.frontier.slots import Slots


class Rotation:
    """Queues with pending requests, by the number of their requests in flight.

    A queue is in the ring of the queues that are as busy as itself. When it comes to
    the front, it is asked whether it is ready. If it is not, it is parked until its
    time has come or a request of it is done, so a call costs the same for any
    number of queues. ``wait(slot, in_flight)`` returns the seconds until the slot may
    have another request; 0 means now.

    The rings of the queues without requests in flight, :attr:`Slots.idle`, have
    names: a queue is made of one whose turn has come, if there is no object of it yet.
    Several partitions take turns.
    """

    def __init__(self, wait: Callable[[SlotQueue, int], float]) -> None:
        self._wait = wait
        self._slots: deque[Slots] = deque()
        self._rings: list[OrderedDict[SlotQueue, None]] = []
        """Queues with one request in flight, with two, and so on."""
        self._parked: OrderedDict[SlotQueue, None] = OrderedDict()
        self._alarms: list[tuple[float, int, SlotQueue]] = []
        self._alarm = 0

    def add(self, slots: Slots) -> None:
        """Choose among the slots of another partition, too."""
        self._slots.append(slots)

    def drop(self, slots: Slots) -> None:
        """Forget the slots of a partition, unless it is dropped already."""
        slots.idle.clear()
        for queue in slots:
            if queue.ring is slots.idle:
                queue.ring = None
            elif queue.ring is not None:
                self.leave(queue)
        if slots in self._slots:
            self._slots.remove(slots)

    def leave(self, queue: SlotQueue) -> None:
        """Remove a queue without pending requests."""
        self._take(queue)
        queue.ring = None

    def count(self, queue: SlotQueue, change: int) -> None:
        """Count requests in flight; the queue goes to the end of its new ring."""
        queue.active += change
        if queue.ring is not None:
            self.put(queue)

    def ask_again(self, queue: SlotQueue) -> None:
        """Ask a queue that was parked before its time."""
        if queue.ring is self._parked:
            self.put(queue)

    def next(self, now: float) -> SlotQueue | None:
        """Return the next queue, or None if no queue is ready."""
        while (alarm := self.next_alarm()) is not None and alarm <= now:
            self.put(self._alarms[0][2])
        for _ in range(len(self._slots)):
            slots = self._slots[0]
            self._slots.rotate(-1)
            while slots.idle:
                queue = slots.make(slots.idle[0])
                if self._may_go(queue, now):
                    return queue
        for ring in self._rings:
            while ring:
                queue = next(iter(ring))
                if self._may_go(queue, now):
                    return queue
        return None

    def _may_go(self, queue: SlotQueue, now: float) -> bool:
        """Whether a queue is ready; if not, it is parked."""
        seconds = self._wait(queue, queue.active)
        if seconds > 0:
            self.park(queue, now + seconds)
        return seconds <= 0

    def next_alarm(self) -> float | None:
        """Return when the next queue that was parked is due."""
        alarms = self._alarms
        while alarms:
            until, number, queue = alarms[0]
            if queue.ring is self._parked and queue.alarm == number:
                return until
            heappop(alarms)
        return None

    def put(self, queue: SlotQueue) -> None:
        """Put a queue with pending requests at the end of the ring of those as busy."""
        rings, active = self._rings, queue.active
        if queue.ring is not None:
            self._take(queue)
        if not active:
            queue.ring = queue.slots.idle
            queue.slots.idle.append(queue.name)
            return
        if len(rings) < active:  # it was in the ring before
            rings.append(OrderedDict())
        ring = queue.ring = rings[active - 1]
        ring[queue] = None

    def _take(self, queue: SlotQueue) -> None:
        """Take a queue out of its ring."""
        ring = queue.ring
        assert ring is not None  # noqa: S101 - until now it had requests
        if isinstance(ring, deque):
            # It is the first, but for requests that a verb removes, slot by slot.
            ring.rotate(-ring.index(queue.name))
            ring.popleft()
        else:
            del ring[queue]

    def park(self, queue: SlotQueue, until: float) -> None:
        """Do not ask a queue before that time, or :meth:`ask_again`."""
        self._take(queue)
        queue.ring = self._parked
        self._parked[queue] = None
        self._alarm += 1
        queue.alarm = self._alarm
        heappush(self._alarms, (until, self._alarm, queue))
