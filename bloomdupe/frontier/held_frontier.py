"""HeldFrontier: the frontiers of a worker's partitions, as one frontier."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.frontier.holding import Holding
from bloomdupe.frontier.later import Waiting
from bloomdupe.frontier.rotation import Rotation
from bloomdupe.frontier.sent_request import PARTITIONS, partition_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bloomdupe.filter.parameters import Parameters
    from bloomdupe.frontier.frontier import Load
    from bloomdupe.frontier.slot_queue import Entry, SlotQueue
    from bloomdupe.frontier.slot_state import SlotState
    from bloomdupe.store.participant import Part
    from bloomdupe.store.redis.owner import PartitionOwner
    from bloomdupe.store.redis.redis_store import RedisStore
    from bloomdupe.store.store import Commit

CONTROL = 0
"""The partition of what belongs to the whole crawl. Its owner is the *leader*."""
FEW = 10
"""Capacity of a filter that gets nothing."""


class HeldFrontier:
    """Has the interface of :class:`~bloomdupe.frontier.frontier.Frontier`.

    A request without payload lives in a frontier in memory, whatever its slot is, and
    so does the state of a slot of another worker. All others are pushed only if the
    partition of their slot *is here*.

    What is written besides requests goes to the *home*: the control partition, if it is
    here, else the first one. ``open_filter`` opens the filter of a partition, and
    ``make`` the frontier over a filter.
    """

    def __init__(
        self,
        owner: PartitionOwner,
        lease: float,
        open_filter: Callable[[RedisStore], BloomFilter],
        *,
        parameters: Parameters,
        wait: Callable[[SlotQueue, int], float],
        **options: Any,  # noqa: ANN401 - of the frontiers
    ) -> None:
        rotation = self._rotation = Rotation(wait)
        options |= {"rotation": rotation, "wait": wait, "load": self._load}

        def make(seen: BloomFilter) -> Frontier:
            return Frontier(seen, **options)

        def may_leave(number: int) -> bool:
            return self.may_leave(number)

        self.holding = Holding(
            owner,
            PARTITIONS,
            lease,
            open_filter,
            make,
            rotation,
            may_leave=may_leave,
        )
        self._make = make
        self.memory = make(BloomFilter(FEW, 0.5))
        """The frontier of requests without payload."""
        self.slots = HeldSlots(self)
        self.seen = HeldFilter(self, parameters)
        self.load: Load = lambda call, then: then(call())
        self.may_leave: Callable[[int], bool] = lambda _: True
        """Whether a partition may be handed over when none of it is in progress."""
        self._home: RedisStore | None = None
        self.stored_at: float | None = None
        self.rules: bytes | None = None
        """The rules of the user when this worker has joined the crawl."""
        self.waited_for_round = False
        """Whether a round went on when this worker has joined the crawl, or began
        before it had a partition."""

    def _load(self, call: Any, then: Any) -> None:  # noqa: ANN401 - as Frontier has it
        self.load(call, then)

    @property
    def frontiers(self) -> dict[int, Frontier]:
        """The frontiers of the partitions that are here, by number."""
        return self.holding.frontiers

    @property
    def all(self) -> list[Frontier]:
        """These frontiers, and the one in memory."""
        return [*self.frontiers.values(), self.memory]

    @property
    def leads(self) -> bool:
        """Whether this worker is the leader."""
        return self.holding.has(CONTROL)

    @property
    def store(self) -> RedisStore:
        """The store of the home."""
        stores = self.holding.owner.stores
        if CONTROL in stores:
            self._home = stores[CONTROL]
        elif self._home is None or self._home not in stores.values():
            self._home = stores[min(stores)] if stores else self._home
        assert self._home is not None  # noqa: S101 - it has joined
        return self._home

    # By slot

    def is_here(self, slot: str) -> bool:
        """Whether the requests of a slot are pushed here, and not sent."""
        return self.holding.has(partition_of(slot))

    def of_slot(self, slot: str) -> Frontier | None:
        """Return the frontier of a slot, if its partition is here, or is leaving."""
        return self.frontiers.get(partition_of(slot))

    def _of_queue(self, queue: SlotQueue) -> Frontier:
        found = self.of_slot(queue.name)
        return found if found and found.slots.idle is queue.idle else self.memory

    def frontier_of(self, entry: Entry) -> Frontier:
        """Return the frontier that has a request."""
        if isinstance(entry, Waiting):
            return (entry.payload and self.of_slot(entry.slot)) or self.memory
        return self._of_queue(entry.queue)

    # The life of a request

    def push(
        self,
        slot: str,
        priority: int,
        payload: bytes | None,
        **options: Any,  # noqa: ANN401 - of the frontier
    ) -> Entry:
        """See :meth:`Frontier.push`."""
        frontier = self.memory if payload is None else self.of_slot(slot)
        assert frontier is not None  # noqa: S101 - or it would be sent
        return frontier.push(slot, priority, payload, **options)

    def save(self, entry: Entry) -> None:
        """See :meth:`Frontier.save`."""
        self.frontier_of(entry).save(entry)

    def lease(self) -> Entry | None:
        """See :meth:`Frontier.lease`."""
        staying = [self.frontiers[number] for number in self.holding.staying()]
        for frontier in (*staying, self.memory):
            frontier.move_due()
        while (queue := self._rotation.next(self.holding.now())) is not None:
            frontier = self._of_queue(queue)
            if frontier.is_loaded(queue):
                return frontier.lease_from(queue)
        return None

    def release(self, entry: Entry) -> None:
        """See :meth:`Frontier.release`."""
        if entry.active:
            self.frontier_of(entry).release(entry)

    def leave(self, entry: Entry) -> None:
        """See :meth:`Frontier.leave`."""
        self.frontier_of(entry).leave(entry)

    def settle(self, entry: Entry) -> None:
        """See :meth:`Frontier.settle`."""
        self.frontier_of(entry).settle(entry)

    def seconds_until_ready(self) -> float | None:
        """See :meth:`Frontier.seconds_until_ready`."""
        found = (frontier.seconds_until_ready() for frontier in self.all)
        return min((one for one in found if one is not None), default=None)

    def ask_again(self, slot: str) -> None:
        """See :meth:`Frontier.ask_again`."""
        for frontier in self.with_slot(slot):
            frontier.ask_again(slot)

    def with_slot(self, slot: str) -> list[Frontier]:
        """Return the frontiers that may have requests of a slot."""
        own = self.of_slot(slot)
        return [self.memory] if own is None else [own, self.memory]

    # Counts

    @property
    def pending(self) -> int:
        """Requests that are pending in their slots."""
        return sum(frontier.pending for frontier in self.all)

    @property
    def leased(self) -> int:
        """Requests handed out and not settled."""
        return sum(frontier.leased for frontier in self.all)

    @property
    def waiting(self) -> int:
        """Requests that are scheduled for later."""
        return sum(frontier.waiting for frontier in self.all)

    @property
    def next_due(self) -> float:
        """Unix time at which the next of these is due; infinite without any."""
        return min(frontier.next_due for frontier in self.all)

    def pending_in(self, slot: str) -> int:
        """See :meth:`Frontier.pending_in`."""
        return sum(frontier.pending_in(slot) for frontier in self.with_slot(slot))

    def pending_by_slot(self) -> Iterator[tuple[str, int]]:
        """See :meth:`Frontier.pending_by_slot`."""
        for frontier in self.all:
            yield from frontier.pending_by_slot()

    # Commits

    @property
    def changed(self) -> bool:
        """True: an empty commit shows that this worker is alive."""
        return True

    @property
    def due(self) -> bool:
        """Whether a checkpoint should not wait."""
        return any(frontier.due for frontier in self.all)

    def begin(self, parts: Sequence[Part], more: int = 0) -> Commit:
        """Begin a commit; ``parts`` go home, but for those of other partitions.

        ``more`` is what the control partition has to do besides its requests.
        """
        by_partition = {self.store.number: [*parts]}
        for part in parts:
            for number, other in part.partitions.items():
                by_partition.setdefault(number, []).append(other)
        return self.holding.begin(by_partition, more={CONTROL: more})

    def read_again(self) -> None:
        """Drop all that is in memory, and read what still belongs to this worker."""
        self.memory.drop()
        self.memory = self._make(BloomFilter(FEW, 0.5))
        self.holding.read_again()


class HeldSlots:
    """The slots of all frontiers, as :class:`~bloomdupe.frontier.slots.Slots`."""

    def __init__(self, frontier: HeldFrontier) -> None:
        self._frontier = frontier

    def __len__(self) -> int:
        """Count the slots with requests."""
        return sum(len(frontier.slots) for frontier in self._frontier.all)

    def __iter__(self) -> Iterator[SlotQueue]:
        """Yield those of them that are not cold."""
        for frontier in self._frontier.all:
            yield from frontier.slots

    def get(self, name: str) -> SlotQueue | None:
        """See :meth:`Slots.get`."""
        found = (one.slots.get(name) for one in self._frontier.with_slot(name))
        return next(filter(None, found), None)

    def state_of(self, name: str) -> SlotState | None:
        """See :meth:`Slots.state_of`."""
        return self._frontier.with_slot(name)[0].slots.state_of(name)

    def state(self, name: str) -> SlotState:
        """See :meth:`Slots.state`."""
        return self._frontier.with_slot(name)[0].slots.state(name)

    def touch(self, name: str) -> None:
        """See :meth:`Slots.touch`."""
        self._frontier.with_slot(name)[0].slots.touch(name)


class HeldFilter:
    """What is known of the filters of all partitions that are here."""

    keeps_pages = True

    def __init__(self, frontier: HeldFrontier, parameters: Parameters) -> None:
        self.frontier = frontier
        self.parameters = parameters
        self.capacity = parameters.capacity
        self._notes: dict[str, Any] = {}

    @property
    def _filters(self) -> list[BloomFilter]:
        return [one.seen for one in self.frontier.frontiers.values()]

    @property
    def notes(self) -> dict[str, Any]:
        """The notes of the crawl; what the leader writes there is kept."""
        control = self.frontier.frontiers.get(CONTROL)
        return self._notes if control is None else control.seen.notes

    def know(self, notes: dict[str, Any]) -> None:
        """Say what the notes are, for a worker that is not the leader."""
        self._notes = notes

    def __len__(self) -> int:
        """Count the URLs seen in them."""
        return sum(map(len, self._filters))

    @property
    def layer_count(self) -> int:
        """Most layers of one of them."""
        return max((one.layer_count for one in self._filters), default=1)

    def current_fpp(self) -> float:
        """Return the largest false-positive probability of them."""
        return max((one.current_fpp() for one in self._filters), default=0.0)

    def expected_loss(self) -> float:
        """Return the number of URLs that they have dropped, as is to be expected."""
        return math.fsum(one.expected_loss() for one in self._filters)

    def figures(self) -> dict[str, Any]:
        """See :meth:`BloomFilter.figures`; of all of them together."""
        found = [one.figures() for one in self._filters]
        return {
            "keys": sum(one["keys"] for one in found),
            "memory_bytes": sum(one["memory_bytes"] for one in found),
            "disk_bytes": 0,
            "current_fpp": self.current_fpp(),
            "expected_loss": self.expected_loss(),
        }

    def close(self) -> None:
        """Do nothing: the frontiers are closed with their owner."""
