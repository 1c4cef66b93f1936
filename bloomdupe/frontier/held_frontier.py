"""HeldFrontier: the frontier of a worker, which owns some of the partitions."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from bloomdupe.errors import NotOwnerError
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.filter.contents import FilterInfo
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.frontier.sent_request import PARTITIONS
from bloomdupe.store.redis.crawl_reader import Claims, Counts
from bloomdupe.store.store import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from bloomdupe.filter.parameters import Parameters
    from bloomdupe.store.redis.crawl_reader import Sample
    from bloomdupe.store.redis.owner import PartitionOwner
    from bloomdupe.store.redis.redis_store import RedisStore
    from bloomdupe.store.store import Commit

CONTROL = 0
"""The partition of what belongs to the whole crawl. Its owner is the *leader*."""


class HeldFrontier(Frontier):
    """The partitions that a worker owns.

    ``open_filter`` opens the filter of each, or makes it, on any thread; the
    ``options`` are those of a frontier. A request without payload lives in a partition
    in memory, whatever its slot is, and so does the state of a slot of another worker.
    All others are pushed only if the partition of their slot *is here*. Else they are
    *sent*: they go out with the next commit, which also acknowledges their page, and
    the owner *takes them in*. A partition that is *leaving* is handed to another worker
    when nothing of it is in flight.

    What is written besides requests goes to the *home*: the control partition, if it is
    here, else the first one.

    Raises :class:`~bloomdupe.errors.NotOwnerError` from any call but :meth:`join`. Then
    call that until there are partitions, or :meth:`read_again`: everything in memory is
    out of date.
    """

    def __init__(
        self,
        owner: PartitionOwner,
        lease: float,
        open_filter: Callable[[RedisStore], BloomFilter],
        *,
        parameters: Parameters,
        partitions: int = PARTITIONS,
        clock: Callable[[], float] = monotonic,
        **options: Any,
    ) -> None:
        super().__init__(BloomFilter(1), clock=clock, **options)
        self.partitions.clear()
        self.partition_count = partitions
        self.seen = cast("BloomFilter", HeldFilter(self, parameters))
        self.owner = owner
        self._open_filter = open_filter
        self._claims = Claims(lease, clock)
        self._outbox: dict[int, list[bytes]] = {}
        self.may_leave: Callable[[int], bool] = lambda _: True
        """Whether a partition may be handed over when none of it is in flight."""
        self.read_more: Callable[[RedisStore], object] = lambda _: None
        """Reads more of a partition that is taken; called on any thread."""
        self.more: Callable[[], int] = int
        """Counts the work of the control partition besides its requests."""
        self._is_refused = False
        self._home: RedisStore | None = None
        self.rules: bytes | None = None
        """The rules of the crawl when this worker has begun to join it."""
        self.notes_elsewhere: dict[str, Any] = {}
        """The notes of the crawl, as another worker has stored them."""

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

    def has(self, partition: int) -> bool:
        """Whether a request of this partition is pushed here, and not sent."""
        found = self.partitions.get(partition)
        return found is not None and not found.is_leaving

    def staying(self) -> list[int]:
        """Return the partitions that are not leaving."""
        return [number for number in self.partitions if self.has(number)]

    def is_here(self, slot: str) -> bool:
        """Whether the requests of a slot are pushed here, and not sent."""
        return self.has(self.number_of(slot))

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

    def begin(self, parts: Sequence[Part]) -> Commit:
        """Begin a commit; ``parts`` go home, but for those of other partitions.

        Requests may be handed out, acknowledged, sent and taken in before it is done.
        """
        written, counts, give = {}, {}, []
        for number, one in self.partitions.items():
            some = [*parts] if self.store.number == number else []
            some += (
                part.partitions[number] for part in parts if number in part.partitions
            )
            if one.changed or some:
                some.insert(0, one.prepare())
            written[self.owner.stores[number]] = some
            work = one.pending + one.in_flight
            if number == CONTROL:
                work += self.more()
            left, delayed = len(one.left), one.delayed
            counts[number] = Counts(work, left, delayed.pending, delayed.next_due)
            if one.is_leaving and not one.in_flight and self.may_leave(number):
                give.append(number)
        sent = {number: list(entries) for number, entries in self._outbox.items()}

        def done() -> None:
            for number, entries in sent.items():
                del self._outbox[number][: len(entries)]
                if not self._outbox[number]:
                    del self._outbox[number]
            for number in give:
                del self.partitions[number]
            self._enter({})

        commit = self.owner.begin(written, sent=sent, counts=counts, give=give)
        commit.add(Part(done=done))
        return commit

    def read_again(self) -> None:
        """Drop everything in memory, and read the partitions that are still here."""
        for partition in self.all:
            self._rotation.drop(partition.slots)
        self.memory = self._made(BloomFilter(1))
        self.partitions.clear()
        self._outbox.clear()
        self._enter(self._opened(self.owner.renew()))

    # Partitions

    def sampling(
        self, report: Callable[[Sample], object]
    ) -> Iterator[Callable[[], None]]:
        """Sample the crawl; take partitions of which no living worker is the owner.

        If another worker has fewer, a partition begins to leave. Do it every second,
        while no commit is out, and ``report`` gets the sample. Yields calls that wait
        for the network; another thread may make them.
        """
        samples: list[Sample] = []
        yield lambda: samples.append(self.owner.sample_as_owner(self.partition_count))
        (sample,) = samples
        claims, me = self._claims, self.owner.token
        claims.see(sample)
        idle, wanted = claims.idle(sample, me), claims.to_take(sample, me)
        if idle or wanted:
            taken: dict[int, BloomFilter] = {}

            def take() -> None:
                self.owner.forget(idle)
                taken.update(self._opened(self.owner.take(wanted)))

            yield take
            self._enter(taken)
        staying = self.staying()
        if len(staying) == len(self.partitions) and claims.has_too_many(sample, me):
            self._give_one(staying)
        report(sample)

    def _give_one(self, staying: list[int]) -> None:
        """Let a partition leave, at best with work of which nothing is in flight."""
        partitions = self.partitions
        some = list(filter(self.may_leave, staying))
        # It keeps the one with most work: that may be all there is.
        some.sort(key=lambda number: -partitions[number].pending)
        some = some[1:] or some
        some.sort(key=lambda number: partitions[number].in_flight > 0)
        for number in some[:1]:
            self.give(number)

    def join(self) -> bool:
        """Show that this worker is there; whether it has any partition by now.

        Everything in memory is out of date if there are partitions already, or if this
        was refused the last time. What was sent while none was here does not count.
        """
        try:
            if self.partitions or self._is_refused:
                self.read_again()
            else:
                self._outbox.clear()
                self.checkpoint()
                for call in self.sampling(lambda _: None):
                    call()
        except NotOwnerError:
            self._is_refused = True
            return False
        self._is_refused = False
        return bool(self.partitions)

    def close(self, *, failed: bool) -> None:
        """Give all partitions back at once, and close the connection.

        If it has ``failed``, it does not wait for Redis.
        """
        if failed:
            self.owner.client.stop_waiting()
        self.owner.give_back()

    def give(self, number: int) -> None:
        """Hand a partition over when nothing of it is in flight."""
        partition = self.partitions[number]
        partition.is_leaving = True
        self._rotation.drop(partition.slots)

    def _opened(self, stores: Iterable[RedisStore]) -> dict[int, BloomFilter]:
        opened = {}
        for store in stores:
            opened[store.number] = self._open_filter(store)
            self.read_more(store)
        return opened

    def _enter(self, opened: Mapping[int, BloomFilter]) -> None:
        for number, seen in opened.items():
            self.partitions[number] = self._made(seen)
        self.all[:] = [*self.partitions.values(), self.memory]


class HeldFilter:
    """What is known of the filters of all partitions that are here."""

    keeps_blocks = True

    def __init__(self, frontier: HeldFrontier, parameters: Parameters) -> None:
        self._frontier = frontier
        self.parameters = parameters
        self.capacity = parameters.capacity

    @property
    def _filters(self) -> list[BloomFilter]:
        return [one.seen for one in self._frontier.partitions.values()]

    @property
    def notes(self) -> dict[str, Any]:
        """The notes of the crawl; those of the leader are stored."""
        control = self._frontier.partitions.get(CONTROL)
        return self._frontier.notes_elsewhere if control is None else control.seen.notes

    def __len__(self) -> int:
        """Count the URLs seen in them."""
        return sum(map(len, self._filters))

    @property
    def layer_count(self) -> int:
        """The largest number of layers of a filter."""
        return max((one.layer_count for one in self._filters), default=1)

    def info(self) -> FilterInfo:
        """Return the figures of all of them."""
        counts = [one.counts for one in self._filters]
        return FilterInfo.of(None, self.parameters, counts)

    @property
    def memory_bytes(self) -> int:
        """Bytes that the blocks of all of them take."""
        return sum(one.memory_bytes for one in self._filters)

    def close(self) -> None:
        """Do nothing: the filters are closed with their owner."""
