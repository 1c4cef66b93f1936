"""HeldFrontier: the frontiers of a worker's partitions, as one frontier."""

from __future__ import annotations

import math
from time import monotonic
from typing import TYPE_CHECKING, Any

from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.frontier.frontier import Frontier, at_once
from bloomdupe.frontier.rotation import Rotation
from bloomdupe.frontier.sent_request import PARTITIONS, partition_of
from bloomdupe.store.redis.crawl_reader import Claims, Counts
from bloomdupe.store.store import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from bloomdupe.filter.parameters import Parameters
    from bloomdupe.frontier.frontier import Load
    from bloomdupe.frontier.slot_queue import Entry, SlotQueue
    from bloomdupe.frontier.slot_state import SlotState
    from bloomdupe.store.redis.crawl_reader import Sample
    from bloomdupe.store.redis.owner import PartitionOwner
    from bloomdupe.store.redis.redis_store import RedisStore
    from bloomdupe.store.store import Commit

CONTROL = 0
"""The partition of what belongs to the whole crawl. Its owner is the *leader*."""
FEW = 10
"""Capacity of a filter that gets nothing."""


class HeldFrontier:
    """Has the interface of :class:`~bloomdupe.frontier.frontier.Frontier`.

    Each partition of the worker has a frontier; ``open_filter`` opens its filter, or
    makes it, on any thread, and the ``options`` are those of the frontiers. A request
    without payload lives in a frontier in memory, whatever its slot is, and so does the
    state of a slot of another worker. All others are pushed only if the partition of
    their slot *is here*. Else they are *sent*: they go out with the next commit, which
    also acknowledges their page, and the owner *takes them in*. A partition that is
    *leaving* is handed to another worker when nothing of it is in flight.

    What is written besides requests goes to the *home*: the control partition, if it is
    here, else the first one.

    Raises :class:`~bloomdupe.errors.NotOwnerError` from any call. Then call
    :meth:`read_again`: everything in memory is out of date.
    """

    def __init__(
        self,
        owner: PartitionOwner,
        lease: float,
        open_filter: Callable[[RedisStore], BloomFilter],
        *,
        parameters: Parameters,
        wait: Callable[[SlotQueue, int], float] = at_once,
        partitions: int = PARTITIONS,
        clock: Callable[[], float] = monotonic,
        **options: Any,
    ) -> None:
        self.owner = owner
        self._open_filter = open_filter
        self._partitions = partitions
        self._claims = Claims(lease, clock)
        self._clock = clock
        self._rotation = Rotation(wait)
        self._options = options | {
            "rotation": self._rotation,
            "load": self._load,
            "clock": clock,
        }
        self.frontiers: dict[int, Frontier] = {}
        """The frontiers of the partitions that are here, by number."""
        self._leaving: set[int] = set()
        self._outbox: dict[int, list[bytes]] = {}
        self._committing = False
        self.memory = self._make(BloomFilter(FEW, 0.5))
        """The frontier of requests without payload."""
        self.slots = HeldSlots(self)
        self.seen = HeldFilter(self, parameters)
        self.load: Load = lambda call, then: then(call())
        self.may_leave: Callable[[int], bool] = lambda _: True
        """Whether a partition may be handed over when none of it is in flight."""
        self._home: RedisStore | None = None
        self.rules: bytes | None = None
        """The rules of the crawl when this worker has begun to join it."""
        self.waited_for_round = False
        """Whether a round went on when this worker has joined the crawl, or began
        before it had a partition."""

    def _load(self, call: Any, then: Any) -> None:
        self.load(call, then)

    def _make(self, seen: BloomFilter) -> Frontier:
        return Frontier(seen, **self._options)

    @property
    def all(self) -> list[Frontier]:
        """The frontiers of the partitions, and the one in memory."""
        return [*self.frontiers.values(), self.memory]

    @property
    def leads(self) -> bool:
        """Whether this worker is the leader."""
        return self.has(CONTROL)

    @property
    def store(self) -> RedisStore:
        """The store of the home."""
        stores = self.owner.stores
        if CONTROL in stores:
            self._home = stores[CONTROL]
        elif self._home is None or self._home not in stores.values():
            self._home = stores[min(stores)] if stores else self._home
        assert self._home is not None  # noqa: S101 - it has joined
        return self._home

    # By partition, and by slot

    def has(self, partition: int) -> bool:
        """Whether a request of this partition is pushed here, and not sent."""
        return partition in self.frontiers and partition not in self._leaving

    def staying(self) -> list[int]:
        """Return the partitions that are not leaving."""
        return [number for number in self.frontiers if self.has(number)]

    def is_here(self, slot: str) -> bool:
        """Whether the requests of a slot are pushed here, and not sent."""
        return self.has(partition_of(slot, self._partitions))

    def of_slot(self, slot: str) -> Frontier | None:
        """Return the frontier of a slot, if its partition is here, or is leaving."""
        return self.frontiers.get(partition_of(slot, self._partitions))

    @staticmethod
    def frontier_of(entry: Entry) -> Frontier:
        """Return the frontier that has a request."""
        found: Frontier = entry.queue.slots.frontier
        return found

    # The life of a request

    def push(
        self,
        slot: str,
        priority: int,
        payload: bytes | None,
        **options: Any,
    ) -> Entry:
        """Add a request to the partition of its slot."""
        frontier = self.memory if payload is None else self.of_slot(slot)
        assert frontier is not None  # noqa: S101 - or it would be sent
        return frontier.push(slot, priority, payload, **options)

    def save(self, entry: Entry) -> None:
        """Let a volatile request be written to its partition."""
        self.frontier_of(entry).save(entry)

    def pop(self) -> Entry | None:
        """Hand out the next request of any partition."""
        staying = [self.frontiers[number] for number in self.staying()]
        for frontier in (*staying, self.memory):
            frontier.move_due()
        while (queue := self._rotation.next(self._clock())) is not None:
            owner: Frontier = queue.slots.frontier
            if owner.is_loaded(queue):
                return owner.pop_from(queue)
        return None

    def release(self, entry: Entry) -> None:
        """Free the place that a request in flight holds in its slot."""
        if entry.active:
            self.frontier_of(entry).release(entry)

    def leave(self, entry: Entry) -> None:
        """Give up a request in flight; it stays in its partition."""
        self.frontier_of(entry).leave(entry)

    def ack(self, entry: Entry) -> None:
        """Remove a request in flight from its partition: it is done."""
        self.frontier_of(entry).ack(entry)

    def seconds_until_ready(self) -> float | None:
        """Return after how many seconds any partition may have a request."""
        found = (frontier.seconds_until_ready() for frontier in self.all)
        return min((one for one in found if one is not None), default=None)

    def ask_again(self, slot: str) -> None:
        """Ask a slot again, whichever partition it is in."""
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
    def unacked(self) -> int:
        """Requests handed out and not acknowledged."""
        return sum(frontier.unacked for frontier in self.all)

    @property
    def waiting(self) -> int:
        """Delayed requests."""
        return sum(frontier.waiting for frontier in self.all)

    @property
    def next_due(self) -> float:
        """Unix time at which the next of these is due; infinite without any."""
        return min(frontier.next_due for frontier in self.all)

    def pending_in(self, slot: str) -> int:
        """Count the pending requests of a slot, if it is here."""
        return sum(frontier.pending_in(slot) for frontier in self.with_slot(slot))

    def pending_by_slot(self) -> Iterator[tuple[str, int]]:
        """Yield the slots that are here, with their pending requests."""
        for frontier in self.all:
            yield from frontier.pending_by_slot()

    # Requests of others, and for others

    def send(self, partition: int, entry: bytes) -> None:
        """Send a request to the owner of its partition, with the next commit."""
        self._outbox.setdefault(partition, []).append(entry)

    def taking_in(
        self,
        sent: Mapping[int, int],
        take: Callable[[int, list[bytes]], None],
    ) -> Iterator[Callable[[], None]]:
        """Take in so many entries that were ``sent`` to each partition, by ``take``.

        Yields calls that wait for the network; another thread may make them.
        """
        stores = {number: self.owner.stores[number] for number in sent}
        found: dict[int, list[bytes]] = {}

        def read() -> None:
            for number, store in stores.items():
                found[number] = store.read_inbox(sent[number])

        if stores:
            yield read
        for number, entries in found.items():
            take(number, entries)
            stores[number].taken += entries

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

        ``more`` is the work of the control partition besides its requests. Requests
        may be handed out, acknowledged, sent and taken in before it is done.
        """
        give = [
            number
            for number in self._leaving
            if not self.frontiers[number].in_flight and self.may_leave(number)
        ]
        sent = {number: list(entries) for number, entries in self._outbox.items()}
        counts = counts_of(self.frontiers)
        if CONTROL in counts:
            work = counts[CONTROL].work + more
            counts[CONTROL] = counts[CONTROL]._replace(work=work)

        def done() -> None:
            self._committing = False
            for number, entries in sent.items():
                del self._outbox[number][: len(entries)]
                if not self._outbox[number]:
                    del self._outbox[number]
            for number in give:
                del self.frontiers[number]
                self._leaving.discard(number)
            self._share()

        commit = self.owner.begin(
            self._by_store(parts), sent=sent, counts=counts, give=give
        )
        commit.add(Part(done=done))
        self._committing = True
        return commit

    def _by_store(self, parts: Sequence[Part]) -> dict[RedisStore, list[Part]]:
        """Return the parts to write to each partition."""
        others: dict[int, list[Part]] = {}
        if parts:
            others[self.store.number] = [*parts]
        for part in parts:
            for number, other in part.partitions.items():
                others.setdefault(number, []).append(other)
        found = {}
        for number, frontier in self.frontiers.items():
            some = others.get(number, [])
            if frontier.changed or some:
                some = [frontier.prepare(), *some]
            found[self.owner.stores[number]] = some
        return found

    def read_again(self) -> None:
        """Drop everything in memory, and read the partitions that are still here."""
        self._committing = False
        for frontier in self.all:
            frontier.drop()
        self.memory = self._make(BloomFilter(FEW, 0.5))
        self.frontiers.clear()
        self._leaving.clear()
        self._outbox.clear()
        self._enter(self._opened(self.owner.renew()))

    # Partitions

    def sample(self) -> Sample | None:
        """Sample the crawl; take partitions of which no living worker is the owner.

        If another worker has fewer, a partition begins to leave. Call it every second;
        while a commit is not done it does nothing and returns None.
        """
        if self._committing:
            return None
        samples: list[Sample] = []
        for call in self.sampling(samples.append):
            call()
        return samples[0]

    def sampling(
        self, report: Callable[[Sample], object]
    ) -> Iterator[Callable[[], None]]:
        """Sample as :meth:`sample` does, and hand the sample to ``report``.

        Yields calls that wait for the network; another thread may make them.
        """
        began, samples = self._clock(), []
        yield lambda: samples.append(self.owner.sample_as_owner(self._partitions))
        (sample,) = samples
        claims, me = self._claims, self.owner.token
        claims.see(sample, began, self.owner.client.interruptions)
        idle, wanted = claims.idle(sample, me), claims.to_take(sample, me)
        if idle or wanted:
            taken: list[tuple[int, BloomFilter]] = []

            def take() -> None:
                self.owner.forget(idle)
                taken.extend(self._opened(self.owner.take(wanted)))

            yield take
            self._enter(taken)
        if not self._leaving and claims.has_too_many(sample, me):
            self._give_one()
        report(sample)

    def _give_one(self) -> None:
        """Let a partition leave, at best with work of which nothing is in flight."""
        frontiers = self.frontiers
        some = list(filter(self.may_leave, self.staying()))
        # It keeps the one with most work: that may be all there is.
        some.sort(key=lambda number: -frontiers[number].pending)
        some = some[1:] or some
        some.sort(key=lambda number: frontiers[number].in_flight > 0)
        for number in some[:1]:
            self.give(number)

    def join(self) -> bool:
        """Show that this worker is there; whether it has any partition.

        What was sent while none was here does not count.
        """
        self._outbox.clear()
        commit = self.begin([])
        commit.send()
        commit.done()
        self.sample()
        return bool(self.frontiers)

    def close(self, *, failed: bool) -> None:
        """Give all partitions back at once, and close the connection.

        If it has ``failed``, it does not wait for Redis.
        """
        if failed:
            self.owner.client.stop_waiting()
        self.owner.give_back()

    def give(self, partition: int) -> None:
        """Hand a partition over when nothing of it is in flight."""
        self._leaving.add(partition)
        self.frontiers[partition].drop()

    def _opened(
        self, stores: Iterable[RedisStore]
    ) -> Iterator[tuple[int, BloomFilter]]:
        for store in stores:
            yield store.number, self._open_filter(store)

    def _enter(self, opened: Iterable[tuple[int, BloomFilter]]) -> None:
        for number, seen in opened:
            self.frontiers[number] = self._make(seen)
        self._share()

    def _share(self) -> None:
        """Share the memory for requests among the frontiers."""
        for frontier in self.frontiers.values():
            frontier.sharers = len(self.frontiers)


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

    def state_of(self, name: str) -> SlotState | None:
        """Return what is remembered of a slot; None: nothing, or not here."""
        return self._frontier.with_slot(name)[0].slots.state_of(name)

    def state(self, name: str) -> SlotState:
        """Return what is remembered of a slot, to change it."""
        return self._frontier.with_slot(name)[0].slots.state(name)

    def touch(self, name: str) -> None:
        """Let the next commit write the state of a slot."""
        self._frontier.with_slot(name)[0].slots.touch(name)


class HeldFilter:
    """What is known of the filters of all partitions that are here."""

    keeps_blocks = True
    disk_bytes = 0

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
        """The notes of the crawl; those of the leader are stored."""
        control = self.frontier.frontiers.get(CONTROL)
        return self._notes if control is None else control.seen.notes

    def know(self, notes: dict[str, Any]) -> None:
        """Set the notes of a worker that is not the leader."""
        self._notes = notes

    def __len__(self) -> int:
        """Count the URLs seen in them."""
        return sum(map(len, self._filters))

    @property
    def layer_count(self) -> int:
        """The largest number of layers of a filter."""
        return max((one.layer_count for one in self._filters), default=1)

    def current_fpp(self) -> float:
        """Return the largest false-positive probability of them."""
        return max((one.current_fpp() for one in self._filters), default=0.0)

    def expected_loss(self) -> float:
        """Return the number of URLs that they have dropped, as is to be expected."""
        return math.fsum(one.expected_loss() for one in self._filters)

    @property
    def memory_bytes(self) -> int:
        """Bytes that the pages of all of them take."""
        return sum(one.memory_bytes for one in self._filters)

    def close(self) -> None:
        """Do nothing: the frontiers are closed with their owner."""


def counts_of(frontiers: Mapping[int, Frontier]) -> dict[int, Counts]:
    """Return what is to be done in each partition."""
    found = {}
    for number, one in frontiers.items():
        work = one.pending + one.in_flight
        found[number] = Counts(work, one.left, one.waiting, one.next_due)
    return found
