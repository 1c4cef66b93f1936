"""Holding: the partitions that a worker owns, and what it has for those of others."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from bloomdupe.errors import StoreError
from bloomdupe.store.participant import Part
from bloomdupe.store.redis.claims import Claims
from bloomdupe.store.redis.crawl_reader import Counts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from bloomdupe.filter.bloom import BloomFilter
    from bloomdupe.frontier.frontier import Frontier
    from bloomdupe.frontier.rotation import Rotation
    from bloomdupe.frontier.slot_queue import Entry, SlotQueue
    from bloomdupe.store.redis.crawl_reader import Look
    from bloomdupe.store.redis.owner import PartitionOwner
    from bloomdupe.store.redis.redis_store import RedisStore
    from bloomdupe.store.store import Commit


class Holding:
    """A worker's partitions, each with its frontier, and one ``rotation`` for all.

    ``open_filter`` opens the filter of a partition, or makes it, on any thread;
    ``make`` makes the frontier over it, which has that rotation. A request that belongs
    to a partition of another worker is *sent*: it goes out with the next commit, which
    also settles its page, and the owner *takes it in*. A partition that is *leaving* is
    handed to another worker when nothing of it is in progress, and ``may_leave`` allows
    it.

    Raises :class:`~bloomdupe.errors.NotOwnerError` from any call. Then call
    :meth:`read_again`: what was in memory is worth nothing any more.
    """

    def __init__(
        self,
        owner: PartitionOwner,
        partitions: int,
        lease: float,
        open_filter: Callable[[RedisStore], BloomFilter],
        make: Callable[[BloomFilter], Frontier],
        rotation: Rotation,
        clock: Callable[[], float] = monotonic,
        may_leave: Callable[[int], bool] = lambda _: True,
    ) -> None:
        self.owner = owner
        self._partitions = partitions
        self._claims = Claims(lease, clock)
        self._open_filter = open_filter
        self._make = make
        self._may_leave = may_leave
        self._rotation = rotation
        self._clock = clock
        self.frontiers: dict[int, Frontier] = {}
        """The frontiers of its partitions, by number."""
        self.leaving: set[int] = set()
        self._outbox: dict[int, list[bytes]] = {}
        self._committing = False

    def now(self) -> float:
        """Return the time by its clock."""
        return self._clock()

    def has(self, partition: int) -> bool:
        """Whether a request of this partition is pushed here, and not sent."""
        return partition in self.frontiers and partition not in self.leaving

    def staying(self) -> list[int]:
        """Return the partitions that are not leaving."""
        return [number for number in self.frontiers if self.has(number)]

    def lease(self) -> tuple[int, Entry] | None:
        """Hand out the next request, with its partition; None if no request is ready.

        Settle it in the frontier of the partition.
        """
        for number in self.staying():
            self.frontiers[number].move_due()
        while (queue := self._rotation.next(self._clock())) is not None:
            number = self._partition_of(queue)
            frontier = self.frontiers[number]
            if frontier.is_loaded(queue):
                return number, frontier.lease_from(queue)
        return None

    def _partition_of(self, queue: SlotQueue) -> int:
        return next(
            number
            for number, frontier in self.frontiers.items()
            if frontier.slots.idle is queue.idle
        )

    # Requests of others, and for others

    def send(self, partition: int, entry: bytes) -> None:
        """Send a request to the owner of its partition, with the next commit."""
        self._outbox.setdefault(partition, []).append(entry)

    def take_in(self, limit: int, push: Callable[[int, bytes], None]) -> int:
        """Push what others have sent, with its partition; return how much there was.

        It reads up to ``limit`` entries of each partition.
        """
        found = 0
        for number in self.staying():
            inbox = self.owner.stores[number].inbox
            entries = inbox.read(limit)
            for entry in entries:
                push(number, entry)
            inbox.took(entries)
            found += len(entries)
        return found

    # Commits

    def begin(
        self,
        parts: Mapping[int, Sequence[Part]] | None = None,
        more: Mapping[int, int] | None = None,
    ) -> Commit:
        """Begin a commit of all frontiers, with more parts by partition.

        Without anything to write it shows that this worker is alive. ``more`` is what a
        partition has to do besides its requests. Requests may be handed out, settled,
        sent and taken in before it is done.
        """
        give = [
            number
            for number in self.leaving
            if not self.frontiers[number].in_progress and self._may_leave(number)
        ]
        sent = {number: list(entries) for number, entries in self._outbox.items()}
        counts = counts_of(self.frontiers)
        for number in (more or {}).keys() & counts.keys():
            work = counts[number].work + (more or {})[number]
            counts[number] = counts[number]._replace(work=work)

        def done() -> None:
            self._committing = False
            for number, entries in sent.items():
                del self._outbox[number][: len(entries)]
                if not self._outbox[number]:
                    del self._outbox[number]
            for number in give:
                del self.frontiers[number]
                self.leaving.discard(number)
            self._share()

        stores = self.owner.stores
        everything: dict[RedisStore, list[Part]] = {}
        for number, frontier in self.frontiers.items():
            others = (parts or {}).get(number, ())
            changed = frontier.changed or others
            prepared = [frontier.prepare(), *others] if changed else []
            everything[stores[number]] = prepared
        commit = self.owner.begin(everything, sent=sent, counts=counts, give=give)
        commit.add(Part(done=done))
        self._committing = True
        return commit

    def read_again(self) -> None:
        """Drop all that is in memory, and read what still belongs to this worker."""
        self._committing = False
        for frontier in self.frontiers.values():
            frontier.drop()
        self.frontiers.clear()
        self.leaving.clear()
        self._outbox.clear()
        self._enter(self._opened(self.owner.renew()))

    # Partitions

    def look(self) -> Look | None:
        """Look at the crawl; take partitions of which no living worker is the owner.

        If another worker has fewer, a partition begins to leave. Call it every second;
        while a commit is not done it does nothing and returns None.
        """
        if self._committing:
            return None
        looks: list[Look] = []
        for call in self.looking(looks.append):
            call()
        return looks[0]

    def looking(self, tell: Callable[[Look], object]) -> Iterator[Callable[[], None]]:
        """Look as :meth:`look` does, and ``tell`` what was seen.

        Yields what waits for the network, which may be called on another thread.
        """
        began, looks = self._clock(), []
        yield lambda: looks.append(self.owner.look_as_owner(self._partitions))
        (look,) = looks
        claims, me = self._claims, self.owner.token
        claims.see(look, began, self.owner.client.interruptions)
        idle, wanted = claims.idle(look, me), claims.to_take(look, me)
        if idle or wanted:
            taken: list[tuple[int, BloomFilter]] = []

            def take() -> None:
                self.owner.forget(idle)
                taken.extend(self._opened(self.owner.take(wanted)))

            yield take
            self._enter(taken)
        if not self.leaving and claims.has_too_many(look, me):
            self._give_one()
        tell(look)

    def _give_one(self) -> None:
        """Let a partition leave: at best one with work, and none of it in progress."""
        frontiers = self.frontiers
        some = list(filter(self._may_leave, self.staying()))
        # It keeps the one with most work: that may be all there is.
        some.sort(key=lambda number: -frontiers[number].pending)
        some = some[1:] or some
        some.sort(key=lambda number: frontiers[number].in_progress > 0)
        for number in some[:1]:
            self.leave(number)

    def join(self) -> bool:
        """Show that this worker is there, and look; whether it has any partition."""
        commit = self.begin()
        commit.send()
        commit.done()
        self.look()
        return bool(self.frontiers)

    def close(self, *, failed: bool) -> None:
        """Let others take its partitions at once, and close the connection.

        If it has ``failed``, it does not wait for Redis.
        """
        owner = self.owner
        if failed:
            owner.client.hurry()
        try:
            for store in owner.stores.values():
                store.reset()
            owner.begin({}, give=[*owner.stores]).send()
            owner.forget([owner.token])
        except StoreError:
            pass  # they take them when the lease has ended
        finally:
            owner.close()

    def leave(self, partition: int) -> None:
        """Hand a partition over when nothing of it is in progress."""
        self.leaving.add(partition)
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


def counts_of(frontiers: Mapping[int, Frontier]) -> dict[int, Counts]:
    """Return what is to be done in each partition."""
    found = {}
    for number, one in frontiers.items():
        work = one.pending + one.in_progress
        found[number] = Counts(work, one.left, one.waiting, one.next_due)
    return found
