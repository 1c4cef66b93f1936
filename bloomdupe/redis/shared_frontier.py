"""SharedFrontier: the requests of a crawl, for many processes on many machines."""

from __future__ import annotations

import json
import math
import secrets
import socket
import time
from bisect import bisect
from contextlib import ExitStack
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from mmh3 import mmh3_x64_128_digest

from bloomdupe.errors import (
    SettingError,
    StoreError,
    StoreMismatchError,
)
from bloomdupe.filter.parameters import Parameters
from bloomdupe.redis.address import Address
from bloomdupe.redis.frontier_header import (
    NAMED,
    PartitionRule,
    change_rules,
    check_partitions,
    header_in,
    header_of,
    mark_of,
    part_of,
    read_rules,
    rules_in,
)
from bloomdupe.redis.frontier_reader import RunningWorkers, read_history_of
from bloomdupe.redis.kept_offers import KeptOffers
from bloomdupe.redis.named_worker import NamedWorker
from bloomdupe.redis.partition import (
    Offer,
    Partition,
    RedisLease,
    SeenMark,
    Settled,
    Taken,
    stored_slot,
)
from bloomdupe.redis.redis_filter import MAX_BATCH, RedisFilter
from bloomdupe.redis.server import Server
from bloomdupe.redis.shared_import import Imports
from bloomdupe.redis.worker_news import News

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from typing_extensions import Self

    from bloomdupe.redis.frontier_reader import OnRedis
    from bloomdupe.redis.partition import (
        Counts,
        LeftRequest,
        OutputEntry,
        OutputLine,
        PartitionTotals,
        Pending,
    )
    from bloomdupe.redis.server import Talk
    from bloomdupe.redis.settled.failed_requests import StoredFailure

    One = TypeVar("One", Offer, SeenMark)
    Item = TypeVar("Item")

__all__ = ["LeftOver", "SharedFrontier", "Turn"]

MIN_LEASE = 0.05
"""Seconds."""
FAILED_AT_ONCE = 500
"""Failed requests per script."""
BASE_WORK = 20
"""Requests for which each partition counts, besides its own requests."""
UNEVEN = 1.25
"""Share of the work, in fair shares, with which a worker gives partitions back."""
PAUSE = 0.25
"""Seconds after which a worker first looks again for partitions."""


class _Loads(NamedTuple):
    """The answer of ``present.lua``: all workers that are alive."""

    workers: int
    stops: int
    """How often they were asked to stop."""
    owned: int
    """Partitions that they own."""
    work: int
    """Pending requests and requests in progress there."""
    rules: bytes
    """The rules that keep requests out, or nothing."""


class LeftOver(NamedTuple):
    """The requests of a frontier that no worker can do now."""

    left: int = 0
    """Requests that were left, and may be done when their worker has ended."""
    aside: int = 0
    """Requests that cannot be restored."""
    later: int = 0
    """Requests scheduled for later."""
    due: float = math.inf
    """Unix time at which the first of these is due; infinite if there are none."""


class Turn(NamedTuple):
    """The answer of :meth:`SharedFrontier.look`."""

    mine: bool
    """Whether this worker has the turn."""
    now: float
    """Redis' Unix time."""
    last: bytes
    """The last look, or nothing."""
    run: int
    """Number of the run; 0: no worker was ever there."""


class SharedFrontier:
    """Pending and leased requests of a crawl on Redis, and a filter of seen requests.

    Each worker has its own object. It *offers* the requests that it finds: requests
    with new fingerprints become pending, in the partition of their slot. It *leases*
    requests from the partitions that it owns, and *settles* them when they are done,
    together with their lines of output. **Offer the children of a request before you
    settle it**: then every seen request is pending, in progress or done, whenever a
    worker dies.

    A partition has one owner at a time. :meth:`tend` takes and gives back partitions so
    that each worker has its share, and tells Redis that this worker is alive: call it
    at least three times within ``lease_seconds``. Otherwise the worker loses its
    partitions, its requests become pending again for other workers, and Redis refuses
    its later settlements.

    Not thread-safe. Every method may be called again after a
    :class:`~bloomdupe.errors.StoreUnreachableError`, with the same arguments.
    """

    def __init__(
        self,
        server: Server,
        header: dict[str, Any],
        worker: str,
        lease_seconds: float,
        *,
        fifo: bool,
        replicas: int,
        stays: bool,
    ) -> None:
        self._server = server
        self.identity: dict[str, Any] = header["identity"]
        """The identity that the creator of the frontier has given to it."""
        self._parameters = Parameters.from_header(header, server.address.shown)
        self.mark = mark_of(header)
        """A digest that identifies it; a later frontier of the same name differs."""
        self.rule = PartitionRule.of(header, server.address.shown)
        """The rule that assigns requests to partitions."""
        self._size = self.rule.partitions
        self.names_start_items = NAMED in header
        """Whether items of ``start()`` have names; earlier versions counted them."""
        self.worker = worker
        self._milliseconds = int(lease_seconds * 1000)
        self._fifo = fifo
        self._replicas = replicas
        self._stays = stays
        self._stops: int | None = None
        self.asked_to_stop = False
        """Whether the workers were asked to stop since this worker began."""
        self._rules_text = b""
        self.rules = read_rules(server)
        """Rules that keep requests out, as known last; see :meth:`change_rules`."""
        self._partitions: dict[int, Partition] = {}
        self._owned: dict[int, Partition] = {}
        # Given back as soon as this worker works on none of their requests.
        self._leaving: set[int] = set()
        self._handed_out: list[RedisLease] = []
        # Offers that are repeated after an interruption, and the number of the
        # interruptions after which they were repeated.
        self._kept = KeptOffers()
        self.cookies = News(server, worker, "cookies")
        self.rests = News(server, worker, "rests")
        """The rests of slots that several workers crawl."""
        self._made_up = server.interruptions.count
        server.watch()
        self._chance = Random(worker)  # noqa: S311 - for no two workers the same
        self._present = False
        # The time of the last renewal of the leases, by the monotonic clock, and the
        # number of interruptions then; and the time from which it takes expired leases.
        self._tended, self._tended_after = 0.0, self._made_up
        self._takes_over_at = 0.0
        self._workers = 0
        """The number of running workers when partitions were taken or given back."""
        # The partitions that were free at the last look, and those that it has left for
        # other workers.
        self._free: set[int] = set()
        self._surplus: set[int] = set()
        # When partitions are looked for next that were given back, and the time until
        # the look after that.
        self._takes_at, self._pause = 0.0, PAUSE
        self.clock_ahead = RunningWorkers.read(server).clock_ahead
        """Seconds by which Redis' clock is ahead of this machine's, as known last."""
        self._busy = 0
        """The partition that was not empty at the last look for the end."""
        self.imports = Imports(server)
        """Requests and seen keys from elsewhere."""

    @classmethod
    def open(
        cls,
        url: str,
        capacity: int | None = None,
        fpp: float | None = None,
        *,
        partitions: int | None = None,
        worker: str | None = None,
        lease_seconds: float = 30.0,
        fifo: bool = False,
        replicas: int = 0,
        stays: bool = False,
        slot_parts: Mapping[str, int] | None = None,
        identity: dict[str, Any] | None = None,
        key: bytes | None = None,
    ) -> Self:
        """Open the frontier that a URL names, or create it there.

        See :class:`~bloomdupe.redis.address.Address` for the URL. ``capacity`` is the
        expected number of requests, and ``fpp`` the probability that a new request is
        taken for seen. ``partitions`` is the highest number of workers. One worker has
        all requests of a slot; ``slot_parts`` names slots whose requests are divided by
        their fingerprints, and says into how many parts, so that several workers have
        them. These four never change afterwards.

        The name of a ``worker`` must be unique; by default it is drawn at random. With
        ``fifo``, the oldest request of a slot has its turn first, among requests of the
        same priority. So many ``replicas`` must confirm an offer before it counts. A
        worker that ``stays`` goes on when nothing is pending; others can see that.
        ``identity`` says to which crawl the frontier belongs, in JSON; opening it with
        a different identity is refused. ``key`` is the secret key of a new frontier.

        Raises :class:`~bloomdupe.errors.SettingError`,
        :class:`~bloomdupe.errors.StoreMismatchError` if the frontier was made with
        other parameters, and the errors of a server in trouble.
        """
        check_partitions(partitions, slot_parts)
        if not lease_seconds >= MIN_LEASE:
            raise SettingError(
                f"lease_seconds = {lease_seconds!r}: expected {MIN_LEASE} at least"
            )
        address = Address.of(url)
        server = Server(address)
        with ExitStack() as undo:
            undo.callback(server.close)
            header = header_of(
                server, capacity, fpp, partitions, slot_parts, identity, key
            )
            name = worker or f"{socket.gethostname()}-{secrets.token_hex(6)}"
            frontier = cls(
                server,
                header,
                name,
                lease_seconds,
                fifo=fifo,
                replicas=replicas,
                stays=stays,
            )
            undo.pop_all()
        return frontier

    @classmethod
    def check(
        cls,
        url: str,
        capacity: int,
        fpp: float | None = None,
        *,
        partitions: int,
        slot_parts: Mapping[str, int],
        identity: dict[str, Any],
    ) -> None:
        """Raise the errors that :meth:`open` would raise; create nothing."""
        check_partitions(partitions, slot_parts)
        server = Server(Address.of(url))
        try:
            if server.fields():
                header_of(server, capacity, fpp, partitions, slot_parts, identity)
                Imports(server).check_ended()
        finally:
            server.close()

    @classmethod
    def identity_at(cls, url: str) -> dict[str, Any] | None:
        """Return the identity of the frontier at a URL; None without a frontier."""
        server = Server(Address.of(url))
        try:
            if not server.fields():
                return None
            header = header_of(server, None, None, None, None, None)
            identity: dict[str, Any] = header["identity"]
            return identity
        finally:
            server.close()

    @classmethod
    def stop_workers(cls, url: str) -> int:
        """Ask the running workers of a frontier to stop; return how many there are.

        Workers that begin later do not notice it.
        """
        server = Server(Address.of(url))
        try:
            header_in(server.fields(), server.address)
            return int(server.run("stop"))
        finally:
            server.close()

    def close(
        self, not_begun: Iterable[RedisLease] = (), reason: str = "closed"
    ) -> None:
        """Give back all partitions, and close the connection.

        See :meth:`not_begun`. The ``reason`` is that of the run, if this is the last
        worker.
        """
        try:
            for number in self._owned.keys() - self._leaving:
                self._hand_out_no_more(number)
            self.not_begun(not_begun)
            self._give_back(list(self._owned))
            if self._present:
                self._run_present(0, reason)
                self._present = False
        finally:
            self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Partitions

    def _partition_of(self, one: Offer | SeenMark) -> int:
        return self.rule.partition_of(stored_slot(one.slot), one.fingerprint)

    def _partition(self, number: int) -> Partition:
        (found,) = self._some([number])
        return found

    def _some(self, numbers: Iterable[int]) -> list[Partition]:
        """Return partitions; those that are used for the first time are opened."""
        numbers = list(numbers)
        new = [number for number in numbers if number not in self._partitions]
        servers = [part_of(self._server, number) for number in new]
        given = dict.fromkeys(vars(self._parameters))
        filters = self._server.at_once(
            RedisFilter.opening(server, given) for server in servers
        )
        for number, server, seen in zip(new, servers, filters, strict=True):
            found = Partition(number, server, seen, self.worker, fifo=self._fifo)
            self._partitions[number] = found
        return [self._partitions[number] for number in numbers]

    @property
    def shown(self) -> str:
        """The URL, without password: for messages."""
        return self._server.address.shown

    @property
    def interruptions(self) -> int:
        """Number of times that Redis was away and may have lost its last writes."""
        return self._made_up

    @property
    def owned(self) -> list[int]:
        """Numbers of the partitions that this worker owns, as far as it knows."""
        return sorted(self._owned)

    def tend(self) -> None:
        """Renew the leases of this worker; take or give back partitions.

        The work is shared: the pending requests and those in progress, and
        :data:`BASE_WORK` for each partition. Without requests, each worker that is
        alive owns the same number of partitions, or one more.

        If Redis was away, and the leases were not renewed for half their time, no
        expired lease is taken for the time of a lease, because the other workers could
        not renew theirs either.
        """
        self._make_up()
        self._renew(list(self._owned))
        loads = self._announce()
        now, made_up = time.monotonic(), self._made_up
        self._note_gap(now)
        self._share(loads, expired=now >= self._takes_over_at)
        # Not before: a call that fails on the way has renewed nothing for the rest.
        self._tended, self._tended_after = now, made_up

    def look_around(self) -> None:
        """Take or give back partitions if workers have come or gone since.

        Costs one script otherwise. If partitions have no owner, it also looks for those
        that were given back, less and less often.
        """
        loads = self._announce()
        if loads.workers != self._workers or (
            loads.owned < self._size and time.monotonic() >= self._takes_at
        ):
            self._share(loads, expired=False)

    def named(self, name: str) -> NamedWorker:
        """Return the holder of a name that the user has given to this worker."""
        return NamedWorker(self._server, name, self.worker, self._milliseconds)

    def _announce(self) -> _Loads:
        """Say that this worker is alive; return what all workers have to do."""
        self._make_up()
        self._present = True
        loads = self._run_present(self._milliseconds)
        if loads.workers < 0:
            raise self.imports.changed()
        if loads.rules != self._rules_text:
            self._rules_text, self.rules = loads.rules, rules_in(loads.rules)
        # There are fewer if Redis has lost one.
        stops = loads.stops
        self._stops = stops if self._stops is None else min(stops, self._stops)
        self.asked_to_stop = stops > self._stops
        return loads

    def _run_present(self, milliseconds: int, reason: str = "") -> _Loads:
        """Register this worker for so long; return the answer of the script."""
        work = sum(partition.work for partition in self._owned.values())
        words = self.worker, milliseconds, self.imports.number, +self._stays, reason
        return _Loads(*self._server.run("present", *words, len(self._owned), work))

    def _share(self, loads: _Loads, *, expired: bool) -> None:
        """Take or give back partitions, so that each worker has its share.

        Those of which the lease has ``expired`` may be taken, too.
        """
        joined = loads.workers != self._workers
        if joined:
            self._workers, self._pause = loads.workers, PAUSE
            if self._owned:
                self._renew(list(self._owned))
                loads = self._announce()
        # Until all partitions have owners, some of the work is unknown.
        if joined or loads.owned >= self._size:
            self._surplus.clear()
            self._leave_surplus(loads, 1.0 if joined else UNEVEN)
        if joined:
            self._leave_beyond(-(-self._size // loads.workers))
        self._give_back_idle()
        if loads.owned < self._size:
            self._take_share(loads, expired=expired)

    def _fair_share(self, loads: _Loads, work: int = 0) -> float:
        """Return the share of a worker; further ``work`` has no owner."""
        return (loads.work + work + BASE_WORK * self._size) / loads.workers

    def _load(self) -> int:
        """Return the work of this worker, without the partitions that it leaves."""
        kept = (n for n in self._owned if n not in self._leaving)
        return sum(self._owned[number].work + BASE_WORK for number in kept)

    def _renew(self, numbers: Iterable[int]) -> None:
        """Renew the leases of partitions, unless another worker owns them by now."""
        self._carry_out({n: self._owned[n].renew(self._milliseconds) for n in numbers})

    def _carry_out(self, talks: Mapping[int, Talk[None]]) -> None:
        """Carry out talks with owned partitions; forget those that are not any more."""
        try:
            self._server.at_once(talks.values())
        finally:
            for number in talks:
                if not self._owned[number].is_owned:
                    del self._owned[number]
                    self._leaving.discard(number)

    def _note_gap(self, now: float) -> None:
        """Let the other workers renew first, if no worker could reach Redis."""
        lease = self._milliseconds / 1000
        was_away = self._made_up != self._tended_after
        if was_away and now - self._tended > lease / 2:
            self._takes_over_at = now + lease

    def _take_share(self, loads: _Loads, *, expired: bool) -> None:
        """Own further partitions that are free, up to the share of a worker."""
        mine = self._owned.keys() | self._surplus
        others = [n for n in range(self._size) if n not in mine]
        self._chance.shuffle(others)
        self._takes_at = time.monotonic() + self._pause
        self._pause *= 2
        partitions = self._some(others)
        free = self._server.at_once(one.is_free(expired=expired) for one in partitions)
        partitions = [
            one for one, is_free in zip(partitions, free, strict=True) if is_free
        ]
        share = self._fair_share(loads, sum(one.work for one in partitions))
        waiting, self._free = self._free, {one.number for one in partitions}
        while partitions:
            load = self._load()
            some: list[Partition] = []
            rest: list[Partition] = []
            for one in partitions:
                more = one.work + BASE_WORK
                # Those that no worker has taken since the last look are for any worker.
                fits = load + more / 2 <= share or not load or one.number in waiting
                (some if fits else rest).append(one)
                load += more if fits else 0
            if not some:
                break
            self._take(some, expired=expired)
            # Another worker may have been faster.
            partitions = rest
            self._pause = PAUSE

    def _take(self, partitions: Sequence[Partition], *, expired: bool) -> None:
        """Become the owner of partitions, as far as they are free."""
        self._server.at_once(
            one.take(self._milliseconds, expired=expired) for one in partitions
        )
        for partition in partitions:
            if partition.is_owned:
                self._owned[partition.number] = partition
                self.clock_ahead = partition.clock_ahead

    @property
    def leaving(self) -> frozenset[int]:
        """Numbers of the partitions that this worker gives back as soon as it can.

        It can when all its requests in progress there are settled or :meth:`not_begun`.
        No further request of these partitions is handed out.
        """
        return frozenset(self._leaving)

    def _leave_surplus(self, loads: _Loads, most: float) -> None:
        """Leave partitions if their work is more than ``most`` fair shares.

        The share itself stays. Some with much work are left, and some with little.
        """
        share = self._fair_share(loads)
        surplus = self._load() - share
        if surplus <= (most - 1) * share:
            return
        kept = [number for number in self._owned if number not in self._leaving]
        kept.sort(key=lambda number: self._owned[number].work, reverse=True)
        # Every second one first, because a request in progress keeps a partition here.
        for number in kept[1::2] + kept[::2]:
            work = self._owned[number].work + BASE_WORK
            if work <= surplus:
                surplus -= work
                self._surplus.add(number)
                self._hand_out_no_more(number)

    def _leave_beyond(self, most: int) -> None:
        """Leave the partitions with the least work that are more than a number.

        A worker that has joined owns some then, even if the surplus of each other
        worker is less than a partition.
        """
        kept = [number for number in self._owned if number not in self._leaving]
        kept.sort(key=lambda number: self._owned[number].work, reverse=True)
        for number in kept[most:]:
            self._surplus.add(number)
            self._hand_out_no_more(number)

    def _hand_out_no_more(self, number: int) -> None:
        """Hand out no further requests of a partition."""
        self._leaving.add(number)
        kept = [lease for lease in self._handed_out if lease.partition != number]
        here = (lease for lease in self._handed_out if lease.partition == number)
        self._owned[number].not_begun.update(lease.number for lease in here)
        self._handed_out = kept

    def not_begun(self, leases: Iterable[RedisLease]) -> None:
        """Declare that this worker will not begin these requests in progress.

        They are pending again when their partition is given back, so only requests of
        partitions that are :attr:`leaving` count.
        """
        for lease in leases:
            if lease.partition in self._leaving and self.holds(lease):
                self._owned[lease.partition].not_begun.add(lease.number)
        self._give_back_idle()

    def _give_back_idle(self) -> None:
        """Give back the partitions that are left, and on which it does not work."""
        self._give_back([n for n in self._leaving if self._owned[n].is_idle])

    def _give_back(self, numbers: Sequence[int]) -> None:
        self._carry_out({number: self._owned[number].renew(0) for number in numbers})
        if numbers and self._present:  # so that other workers look for them
            self._run_present(self._milliseconds)

    # The life of a request

    def offer(self, offers: Iterable[Offer]) -> list[int]:
        """Accept requests that are new; say of each whether it was: see :class:`Taken`.

        A request that was offered before, by any worker, is not new, unless its slot
        had no room for it.
        """
        self._make_up()
        offers = list(offers)
        new = self._offer(offers)
        self._kept.keep(offers)
        return new

    def _make_up(self) -> None:
        """Repeat the offers that Redis may have lost, if there was an interruption."""
        interruptions = self._server.interruptions
        count = interruptions.count
        if count != self._made_up:
            self._server.reach()
            self._offer(list(self._kept))
            self._kept.offered_again()
            interruptions.made_up_for()
            self._made_up = count

    def _offer(self, offers: list[Offer]) -> list[int]:
        elsewhere = self.imports.knows([offer.known_as for offer in offers])
        pairs = zip(offers, elsewhere, strict=True)
        here = [offer for offer, is_elsewhere in pairs if not is_elsewhere]
        new = self._each(here, Partition.offer)
        # In this order: without the mark, a request is done twice, and not lost.
        marks = [offer.also for offer in here if offer.also is not None]
        self._each(marks, Partition.mark)
        if self._replicas:
            self._replicate(
                {
                    *map(self._partition_of, here),
                    *map(self._partition_of, marks),
                }
            )
        answers = iter(new)
        return [Taken.SEEN if known else next(answers) for known in elsewhere]

    def _each(
        self,
        ones: Sequence[One],
        talk: Callable[[Partition, list[One]], Talk[list[int]]],
    ) -> list[int]:
        """Ask the partitions about requests or marks, a thousand in a round trip.

        The order within a partition stays. Returns the answer to each of them.
        """
        answers = [0] * len(ones)
        for first in range(0, len(ones), MAX_BATCH):
            places: dict[int, list[int]] = {}
            for place in range(first, min(first + MAX_BATCH, len(ones))):
                places.setdefault(self._partition_of(ones[place]), []).append(place)
            found = self._server.at_once(
                talk(partition, [ones[place] for place in places[partition.number]])
                for partition in self._some(places)
            )
            for own, some in zip(places.values(), found, strict=True):
                for place, answer in zip(own, some, strict=True):
                    answers[place] = answer
        return answers

    def _replicate(self, numbers: Iterable[int]) -> None:
        """Wait until the replicas have confirmed the offers to these partitions."""
        nodes = {}
        for number in numbers:
            server = self._partition(number).server
            nodes[server.node] = server
        for server in nodes.values():
            server.replicate(self._replicas)

    def knows(self, marks: Sequence[SeenMark]) -> list[bool]:
        """Say of each request whether it counts as seen."""
        self._make_up()
        elsewhere = self.imports.knows([mark.fingerprint for mark in marks])
        known = self._each(marks, Partition.knows)
        return [bool(each) for each in map(max, elsewhere, known)]

    def mark_seen(self, marks: Sequence[SeenMark]) -> None:
        """Mark requests as seen without adding them to the pending requests."""
        self._make_up()
        self._each(marks, Partition.mark)

    def lease(
        self, count: int, of_each: int = 16, *, everywhere: bool = True
    ) -> list[RedisLease]:
        """Hand out up to ``count`` requests, each to be settled.

        The slots have their turns. Of a slot, up to ``of_each`` are handed out at once;
        then it has its next turn after :meth:`ask_again`. Not ``everywhere``: the
        partitions are left out that had no further request at the last look, if only
        another worker can have offered one since. Partitions that had none give one at
        least, so there may be some requests more in progress than were asked for.
        """
        self._make_up()
        numbers = [number for number in self._owned if number not in self._leaving]
        self._chance.shuffle(numbers)
        dry = [number for number in numbers if self._owned[number].is_dry]
        others = [number for number in numbers if not self._owned[number].is_dry]
        portion = -(-count // of_each)
        while (missing := count - len(self._handed_out)) > 0:
            if not others:
                others, dry = dry if everywhere else [], []
                portion = len(others)
            if not others:
                break
            some, others = others[:portion], others[portion:]
            # Not lost if Redis does not answer the next time.
            self._lease_from(some, missing, of_each)
            others += [
                n for n in some if n in self._owned and not self._owned[n].is_dry
            ]
            portion = min(2 * portion, missing)
        self._move_misplaced()
        leases, self._handed_out = self._handed_out[:count], self._handed_out[count:]
        return leases

    def _lease_from(self, numbers: Sequence[int], count: int, of_each: int) -> None:
        """Hand out requests: of each partition its part of ``count``, or one."""
        each, more = divmod(count, len(numbers))
        parts = {
            number: max(1, each + (place < more))
            for place, number in enumerate(numbers)
        }
        asked = [(self._owned[number], part) for number, part in parts.items()]
        self._carry_out({one.number: one.lease(part, of_each) for one, part in asked})
        for one, part in asked:
            self._handed_out += one.handed_out(part)

    def _move_misplaced(self) -> None:
        """Move requests that are handed out to the partitions of their slots.

        Each has taken the place of a request here. A request may be moved once more
        after a crash, so its name is made of its place.
        """
        moved = [lease for lease in self._handed_out if self._is_misplaced(lease)]
        if not moved:
            return
        offers = []
        for lease in moved:
            place = b"moved %d %b" % (lease.partition, lease.number)
            name = mmh3_x64_128_digest(place + lease.payload)
            offers.append(lease.again._replace(fingerprint=name, of=lease))
            self._partition(lease.partition).ask_again(lease.slot)
        self.offer(offers)
        self.settle(map(Settled, moved))
        kept = [lease for lease in self._handed_out if not self._is_misplaced(lease)]
        self._handed_out = kept

    def _is_misplaced(self, lease: RedisLease) -> bool:
        """Whether the slot of a request belongs to another partition."""
        return lease.partition not in self.rule.partitions_of(stored_slot(lease.slot))

    def holds(self, lease: RedisLease) -> bool:
        """Whether this worker may still settle a request, as far as it knows.

        Another thread may call this method, like :meth:`last_owner_until`.
        """
        partition = self._owned.get(lease.partition)
        return partition is not None and partition.fence == lease.fence

    def last_owner_until(self, lease: RedisLease) -> float | None:
        """Return the time until which another owner may have sent requests to the slot.

        In seconds of ``time.monotonic()``. None if the times of all its requests are
        known.
        """
        partition = self._owned.get(lease.partition)
        return None if partition is None else partition.last_owner_until

    def share_of(self, slot: str) -> float:
        """Return the share of a slot's parts that this worker has, or will have soon.

        Another thread may call this.
        """
        numbers = self.rule.partitions_of(stored_slot(slot))
        own = sum(n in self._owned and n not in self._leaving for n in numbers)
        return max(1, own) / len(numbers)

    def may_have_failed(self, request: RedisLease | SeenMark, mark: bytes) -> bool:
        """Whether a failed request in the partition of this request has this mark.

        See :class:`~bloomdupe.redis.settled.failed_requests.FailedRequest`. Another
        thread may call this.
        """
        if isinstance(request, RedisLease):
            number = request.partition
        else:
            number = self._partition_of(request)
        partition = self._owned.get(number)
        return partition is not None and partition.failed.has_mark(mark)

    def ask_again(self, slot: str) -> None:
        """Let a slot have its next turn."""
        for number in self.rule.partitions_of(stored_slot(slot)):
            if number in self._owned:
                self._owned[number].ask_again(slot)

    def settle(
        self, done: Iterable[tuple[RedisLease, Sequence[bytes]] | Settled]
    ) -> list[RedisLease]:
        """Settle requests, with the lines of output of each.

        Returns the refused requests, because their partitions have another owner by
        now: they were handed out again, and their lines are not kept. All children of a
        request must have been offered. Children that were done as a part of it are
        *marked* as seen instead. A request may also *rely* on another request of this
        worker that has yielded the same child: then it is settled only if the worker
        still has that other request. If not, it becomes pending again, and is returned,
        too.
        """
        self._make_up()
        all_done = [one if isinstance(one, Settled) else Settled(*one) for one in done]
        again = self._unreliable(all_done)
        refused = set(again)
        # A request that was settled before an answer was lost is not marked: Redis may
        # have lost the settlement since, and then it is done again.
        sure = {one.lease.token for one in all_done if self._works_on(one.lease)}
        by_owner: dict[tuple[int, str], list[Settled]] = {}
        for one in all_done:
            owner = one.lease.partition, one.lease.fence
            step = one
            if one.lease.token in again:
                step = Settled(one.lease, instead=[one.lease.again])
            by_owner.setdefault(owner, []).append(step)
        talks = {}
        for (number, fence), some in by_owner.items():
            partition = self._owned.get(number)
            if partition is not None and partition.fence == fence:
                talks[number] = partition.settle(some)
        self._carry_out(talks)
        # Those that have another owner by now, or had one before.
        refused |= {one.lease.token for one in all_done if not self.holds(one.lease)}
        self._give_back_idle()
        sure -= refused
        accepted = (one for one in all_done if one.lease.token in sure)
        self.mark_seen([mark for one in accepted for mark in one.marks])
        for one in all_done:
            self._kept.settled(one.lease)
        return [one.lease for one in all_done if one.lease.token in refused]

    def _works_on(self, lease: RedisLease) -> bool:
        return self.holds(lease) and lease.number in (
            self._owned[lease.partition].in_progress
        )

    def _unreliable(self, done: list[Settled]) -> set[tuple[int, str, bytes]]:
        """Return the requests that rely on a request that this worker has lost.

        Redis is asked *before* anything is settled. So the child of both requests is
        done, or a request that yields it is not settled: a request that is lost later
        is begun again after this moment, and yields the child again.
        """
        relied = {lease.partition for one in done for lease in one.relies}
        self._renew(sorted(relied & self._owned.keys()))
        return {one.lease.token for one in done if not all(map(self.holds, one.relies))}

    def leave(self, left: Iterable[LeftRequest]) -> None:
        """Leave requests unsettled; they become pending again when this worker ends.

        A request that another worker has by now is left out.
        """
        self._make_up()
        by_partition: dict[int, list[LeftRequest]] = {}
        for one in left:
            if self.holds(one.lease):
                by_partition.setdefault(one.lease.partition, []).append(one)
        self._carry_out(
            {n: self._owned[n].leave(some) for n, some in by_partition.items()}
        )
        self._give_back_idle()
        for some in by_partition.values():
            for one in some:
                self._kept.settled(one.lease)

    # Its contents

    def counts(self) -> list[Counts]:
        """Count the requests in each partition, not all at the same moment."""
        return self._counts(range(self._size))

    def _counts(self, numbers: Iterable[int]) -> list[Counts]:
        return self._server.at_once(one.counts() for one in self._some(numbers))

    @property
    def finished(self) -> bool:
        """Whether no request is pending or in progress in any partition."""
        return self.left_over() == LeftOver()

    @property
    def stays_open(self) -> bool:
        """Whether a worker is running that goes on when nothing is pending."""
        return RunningWorkers.read(self._server).stays

    def left_over(self) -> LeftOver | None:
        """Count the requests that no worker can do now.

        None if any other request is pending.

        With no other request pending, new requests can come only as offers that have no
        parent. The partitions are looked at twice, because they are looked at one after
        another: if each of them was empty at the first look, and has accepted nothing
        until the second look, all of them were empty at one moment in between.

        The first look begins at a partition that was not empty last time, and goes on
        to more and more partitions as long as all are empty. So repeated calls cost
        Redis one script each, not one script for each partition.
        """
        self._make_up()
        looked = time.time()
        first: dict[int, Counts] = {}
        numbers = [(self._busy + place) % self._size for place in range(self._size)]
        for some in _doubling(numbers, 1):
            for number, counts in zip(some, self._counts(some), strict=True):
                if counts.slots or counts.leased > counts.left:
                    self._busy = number
                    return None
                first[number] = counts
        for found, counts in zip(first.values(), self._counts(first), strict=True):
            if counts.state != found.state:
                return None
        aside = sum(found.aside for found in first.values())
        left = sum(found.left for found in first.values()) - aside
        later = sum(found.later for found in first.values())
        until = (found.milliseconds for found in first.values() if found.later)
        due = looked + min(until, default=math.inf) / 1000
        return LeftOver(left, aside, later, due)

    def look(
        self, seconds: float, look: bytes = b"", time: int = 0, gone: Iterable[int] = ()
    ) -> Turn:
        """Ask for the turn to look at all partitions, which one worker has at a time.

        The next turn is in so many ``seconds``. A worker that has it looks at
        :meth:`totals`, and calls this again with its ``look``, for the other workers
        and for :meth:`history`; and with the times of this look, and of looks that are
        not needed any more, in Unix milliseconds.
        """
        milliseconds = int(seconds * 1000)
        turn, now, last, run = self._server.run("look", milliseconds, look, time, *gone)
        return Turn(bool(turn), now / 1000, last, run)

    def history(self) -> list[bytes]:
        """Return all looks, by their times."""
        _, looks, _ = read_history_of(self._server, 0)
        return looks

    def memory_used(self) -> int:
        """Return the bytes that all data of this Redis takes."""
        used, _ = self._server.memory_used()
        return used

    def totals(self) -> list[PartitionTotals]:
        """Count the requests of each partition, not all at the same moment."""
        partitions = self._some(range(self._size))
        return self._server.at_once(one.totals() for one in partitions)

    def failures(self) -> list[StoredFailure]:
        """Return the failed requests of all partitions."""
        self._make_up()
        partitions = self._some(range(self._size))
        found = self._server.at_once(one.failures() for one in partitions)
        return [one for some in found for one in some]

    def trim_failures(self, counts: Sequence[int], most: int) -> None:
        """Remove failed requests if all partitions together have more than ``most``.

        ``counts`` has the number in each partition. The oldest are removed, of the
        partitions with the most.
        """
        kept = _level(counts, most)
        self._server.at_once(
            partition.trim_failures(few)
            for partition, count, few in zip(
                self._some(range(self._size)), counts, kept, strict=True
            )
            if few < count
        )

    def requeue(self, failed: Iterable[tuple[StoredFailure, Offer]]) -> int:
        """Make failed requests pending again, each as an offer.

        Returns how many there are, without those that were pending already.
        """
        self._make_up()
        by_partition: dict[int, list[tuple[StoredFailure, Offer]]] = {}
        for one in failed:
            by_partition.setdefault(one[0].partition, []).append(one)
        requeued = self._server.at_once(
            self._partition(number).requeue(portion)
            for number, some in by_partition.items()
            for portion in _portions(some)
        )
        return sum(requeued)

    def import_failures(self, failed: Iterable[tuple[SeenMark, StoredFailure]]) -> None:
        """Store failed requests, unless they are there, in the partitions of marks."""
        self._make_up()
        by_partition: dict[int, list[StoredFailure]] = {}
        for mark, one in failed:
            by_partition.setdefault(self._partition_of(mark), []).append(one)
        self._server.at_once(
            self._partition(number).import_failures(portion)
            for number, some in by_partition.items()
            for portion in _portions(some)
        )

    def change_rules(
        self, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
    ) -> list[dict[str, Any]]:
        """Change the rules that keep requests out, and return them.

        A worker knows them when it has called :meth:`look_around` or :meth:`tend`. It
        is the program that obeys them. ``change`` may be called several times.
        """
        self.rules = change_rules(self._server, change)
        return self.rules

    def drop(self, partition: int, found: Sequence[tuple[OnRedis, bytes]]) -> int:
        """Remove pending requests; see :meth:`Partition.drop`."""
        return self._server.carry_out(self._partition(partition).drop(found))

    # As a whole, while no worker is running

    def hold(self) -> None:
        """Own all partitions; requests in progress become pending again.

        Raises :class:`~bloomdupe.errors.StoreError` while workers are running, or until
        the lease of a killed worker has run out. :meth:`close` gives the partitions
        back.
        """
        there = self._run_present(0).workers
        if not there:
            self._take(self._some(range(self._size)), expired=True)
        if len(self._owned) < self._size:
            raise StoreError(
                f"{self.shown}: workers are there ({there or 1} at least). Stop"
                " them (Ctrl-C once each); one that was killed is gone when"
                " BLOOMDUPE_REDIS_LEASE has run out"
            )

    def keep_holding(self) -> None:
        """Renew the leases of all partitions; call it within ``lease_seconds``.

        Raises :class:`~bloomdupe.errors.StoreError` if another worker has come.
        """
        self._renew(list(self._owned))
        if len(self._owned) < self._size:
            raise StoreError(
                f"{self.shown}: a worker has begun meanwhile; stop it, and try again"
            )

    def pending_in(self, partition: int) -> Iterator[Pending]:
        """Yield the pending requests of a partition that this worker owns."""
        return self._partition(partition).pending()

    def seen_in(self, partition: int) -> RedisFilter:
        """Return the filter of the requests seen in a partition."""
        return self._partition(partition).seen

    @property
    def parameters(self) -> Parameters:
        """Parameters of the crawl, with the capacity of all partitions together."""
        return self._parameters

    # Its output

    def outputs(self) -> Iterator[OutputLine]:
        """Yield the lines of output of all requests that are done."""
        for number in range(self._size):
            yield from self._partition(number).outputs()

    @property
    def partitions(self) -> int:
        """Number of partitions, which are numbered from 0."""
        return self._size

    def entries(self, partition: int, after: bytes, count: int) -> list[OutputEntry]:
        """Return the first entries of a partition's output after the entry ``after``.

        ``NO_ENTRY`` precedes all entries. An entry holds the lines of one step.
        """
        return self._partition(partition).entries(after, count)

    def forget(self, partition: int, before: bytes) -> int:
        """Delete a partition's output before an entry; return how many entries went.

        The entry itself stays. It shows, when the output is read on from there, whether
        Redis has lost anything.
        """
        return self._partition(partition).forget(before)

    def forgotten(self, partition: int) -> bytes:
        """Return the entry before which output was deleted, or ``NO_ENTRY``.

        That entry and the entries before it were collected.
        """
        return self._partition(partition).forgotten()

    def check_still_there(self) -> None:
        """Raise an error if the frontier was removed, or replaced by a new one."""
        shown, fields = self.shown, self._server.fields()
        if b"header" not in fields:
            raise StoreError(
                f"{shown} is gone. It was deleted, or Redis was started"
                " without its data; restore them"
            )
        if mark_of(json.loads(fields[b"header"])) != self.mark:
            raise StoreMismatchError(
                f"{shown}: another frontier has been made under this name meanwhile"
            )


def _doubling(numbers: Sequence[int], first: int) -> Iterator[Sequence[int]]:
    """Cut numbers into portions, each twice as long as the portion before it."""
    while numbers:
        yield numbers[:first]
        numbers, first = numbers[first:], 2 * first


def _level(counts: Sequence[int], most: int) -> list[int]:
    """Lower the largest of these numbers until their sum is ``most``."""
    levels = range(max(counts) + 1)
    level = bisect(levels, most, key=lambda high: sum(min(n, high) for n in counts)) - 1
    spare = most - sum(min(count, level) for count in counts)
    lowered = []
    for count in counts:
        more = count > level and spare > 0
        spare -= more
        lowered.append(min(count, level + more))
    return lowered


def _portions(some: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Yield portions of a size for a script, which blocks Redis for some time."""
    for first in range(0, len(some), FAILED_AT_ONCE):
        yield some[first : first + FAILED_AT_ONCE]
