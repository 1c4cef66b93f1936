"""Holding: the partitions that a worker owns, and what it has for those of others."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from bloomdupe.store.participant import Part
from bloomdupe.store.redis.claims import Claims

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from bloomdupe.frontier.frontier import Frontier
    from bloomdupe.frontier.rotation import Rotation
    from bloomdupe.frontier.slot_queue import Entry, SlotQueue
    from bloomdupe.store.redis.crawl_reader import Look
    from bloomdupe.store.redis.owner import PartitionOwner
    from bloomdupe.store.redis.redis_store import RedisStore
    from bloomdupe.store.store import Commit


class Holding:
    """A worker's partitions, each with its frontier, and one ``rotation`` for all.

    ``make`` opens the filter of a partition, and the frontier over it, which has that
    rotation. A request that
    belongs to a partition of another worker is *sent*: it goes out with the next
    commit, which also settles its page, and the owner *takes it in*. A partition that
    is *leaving* is handed to another worker when nothing of it is in progress.

    Raises :class:`~bloomdupe.errors.NotOwnerError` from any call. Then call
    :meth:`read_again`: what was in memory is worth nothing any more.
    """

    def __init__(
        self,
        owner: PartitionOwner,
        partitions: int,
        lease: float,
        make: Callable[[RedisStore], Frontier],
        rotation: Rotation,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.owner = owner
        self._partitions = partitions
        self._claims = Claims(lease, clock)
        self._make = make
        self._rotation = rotation
        self._clock = clock
        self.frontiers: dict[int, Frontier] = {}
        """The frontiers of its partitions, by number."""
        self.leaving: set[int] = set()
        self._outbox: dict[int, list[bytes]] = {}
        self._committing = False

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
            if frontier.slots.get(queue.name) is queue
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
        lines: Iterable[Sequence[bytes]] = (),
    ) -> Commit:
        """Begin a commit of all frontiers, with more parts by partition.

        Without anything to write it shows that this worker is alive. For ``lines`` see
        :meth:`bloomdupe.store.redis.owner.PartitionOwner.begin`. Requests may be handed
        out, settled, sent and taken in before it is done.
        """
        give = [n for n in self.leaving if not self.frontiers[n].leased]
        sent = {number: list(entries) for number, entries in self._outbox.items()}
        counts = {
            number: frontier.pending + frontier.leased + frontier.waiting
            for number, frontier in self.frontiers.items()
        }

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
            more = (parts or {}).get(number, ())
            changed = frontier.changed or more
            everything[stores[number]] = [frontier.prepare(), *more] if changed else []
        commit = self.owner.begin(
            everything, sent=sent, lines=lines, counts=counts, give=give
        )
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
        self._enter(self.owner.renew())

    # Partitions

    def look(self) -> Look | None:
        """Look at the crawl; take partitions of which no living worker is the owner.

        If another worker has fewer, a partition begins to leave. Call it every second;
        while a commit is not done it does nothing and returns None.
        """
        if self._committing:
            return None
        began = self._clock()
        look = self.owner.look_as_owner(self._partitions)
        claims, me = self._claims, self.owner.token
        claims.see(look, began, self.owner.client.interruptions)
        self.owner.forget(claims.idle(look, me))
        self._enter(self.owner.take(claims.to_take(look, me)))
        if not self.leaving and claims.has_too_many(look, me):
            self.leave(min(self.staying(), key=lambda n: self.frontiers[n].pending))
        return look

    def leave(self, partition: int) -> None:
        """Hand a partition over when nothing of it is in progress."""
        self.leaving.add(partition)
        self.frontiers[partition].drop()

    def _enter(self, stores: Iterable[RedisStore]) -> None:
        for store in stores:
            self.frontiers[store.number] = self._make(store)
        self._share()

    def _share(self) -> None:
        """Share the memory for requests among the frontiers."""
        for frontier in self.frontiers.values():
            frontier.sharers = len(self.frontiers)
