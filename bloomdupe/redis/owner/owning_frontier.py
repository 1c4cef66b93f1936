"""OwningFrontier: a frontier with workers that share its partitions."""

from __future__ import annotations

import secrets
import socket
import time
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.errors import SettingError
from bloomdupe.redis.frontier_header import rules_in
from bloomdupe.redis.open_frontier import OpenFrontier
from bloomdupe.redis.owner.owned_partition import OwnedPartition
from bloomdupe.redis.owner.worker_news import News

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from typing_extensions import Self

    from bloomdupe.redis.partition import RedisLease
    from bloomdupe.redis.server import Server, Talk

__all__ = ["OwningFrontier"]

MIN_LEASE = 0.05
"""Seconds."""
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
    now: int
    """Redis' Unix milliseconds."""
    round: int


class OwningFrontier(OpenFrontier):
    """A frontier of which this process, a worker, owns partitions.

    A partition has one owner at a time. :meth:`tend` takes and gives back partitions so
    that each worker has its share, and tells Redis that this worker is alive: call it
    at least three times within ``lease_seconds``. Otherwise the worker loses its
    partitions, its requests become pending again for other workers, and Redis refuses
    its later settlements.
    """

    def __init__(
        self,
        server: Server,
        header: dict[str, Any],
        *,
        worker: str | None = None,
        lease_seconds: float = 30.0,
        fifo: bool = False,
        stays: bool = False,
    ) -> None:
        super().__init__(server, header, fifo=fifo)
        self.worker = worker or f"{socket.gethostname()}-{secrets.token_hex(6)}"
        self._milliseconds = int(lease_seconds * 1000)
        self._stays = stays
        self._round: int | str = 0
        self._stops: int | None = None
        self.asked_to_stop = False
        """Whether the workers were asked to stop since this worker began."""
        self._rules_text = b""
        self.news = News(server, self.worker)
        self._partitions = [
            OwnedPartition(number, part, self.worker, fifo=fifo)
            for number, part in enumerate(self._parts)
        ]
        self._owned: dict[int, OwnedPartition] = {}
        # Given back as soon as this worker works on none of their requests.
        self._returning: set[int] = set()
        # Requests that Redis has handed out, and that no call has returned yet.
        self._handed_out: list[RedisLease] = []
        self._chance = Random(self.worker)  # noqa: S311 - for no two workers the same
        self._present = False
        # The time of the last renewal of the leases, by the monotonic clock, and the
        # number of interruptions then; and the time from which it takes expired leases.
        self._tended, self._tended_after = 0.0, self._made_up
        self._takes_over_at = 0.0
        self._workers = 0
        """The number of running workers when partitions were taken or given back."""
        # The partitions that were free at the last look, and those that it has left to
        # other workers.
        self._free: set[int] = set()
        self._surplus: set[int] = set()
        # When partitions are looked for next that were given back, and the time until
        # the look after that.
        self._takes_at, self._pause = 0.0, PAUSE

    @classmethod
    def open(
        cls,
        url: str,
        capacity: int | None = None,
        fpp: float | None = None,
        *,
        lease_seconds: float = 30.0,
        **options: Any,  # noqa: ANN401 - of several types
    ) -> Self:
        """See :meth:`OpenFrontier.open`; there are further ``options``.

        The name of a ``worker`` must be unique; by default it is drawn at random. A
        worker that ``stays`` goes on when nothing is pending; the other workers can see
        that.
        """
        if not lease_seconds >= MIN_LEASE:
            raise SettingError(
                f"lease_seconds = {lease_seconds!r}: expected {MIN_LEASE} at least"
            )
        return super().open(url, capacity, fpp, lease_seconds=lease_seconds, **options)

    def close(
        self, not_begun: Iterable[RedisLease] = (), reason: str = "closed"
    ) -> None:
        """Give back all partitions, and close the connection.

        See :meth:`not_begun`. The ``reason`` is that of the run, if this is the last
        worker.
        """
        try:
            for number in self._owned.keys() - self._returning:
                self._give_up(number)
            self.not_begun(not_begun)
            self._give_back(list(self._owned))
            if self._present:
                self._run_present(0, reason)
                self._present = False
        finally:
            self._server.close()

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
            loads.owned < self.partitions and time.monotonic() >= self._takes_at
        ):
            self._share(loads, expired=False)

    def begin_round(self, *, again: bool) -> int:
        """Return the number of the round, counted from 1, that this worker works on.

        A new one begins if that is wanted ``again``, a worker has closed with the
        reason ``finished``, and all workers have ended. Workers that come before this
        one has ended are in the same round.
        """
        found = self.round
        if again and self.finished:
            self._round = "again"
            found = self._announce().round
        self._round = found
        return found

    def _announce(self) -> _Loads:
        """Say that this worker is alive; return the loads of all workers."""
        self._make_up()
        self._present = True
        asked = time.time()
        answer = self._run_present(self._milliseconds)
        if not answer[0]:
            self.check_open()
            raise self._replaced()
        loads = _Loads(*answer)
        # Redis has answered between these two times, so a late answer tells less than
        # a quick one before it.
        now = loads.now / 1000
        self.clock_ahead = min(max(self.clock_ahead, now - time.time()), now - asked)
        if loads.rules != self._rules_text:
            self._rules_text, self.rules = loads.rules, rules_in(loads.rules)
        # There are fewer if Redis has lost one.
        stops = loads.stops
        self._stops = stops if self._stops is None else min(stops, self._stops)
        self.asked_to_stop = stops > self._stops
        return loads

    def _run_present(self, milliseconds: int, reason: str = "") -> list[Any]:
        """Say that this worker is alive for so long; return the script's answer."""
        work = sum(partition.work for partition in self._owned.values())
        words = self.worker, milliseconds, self._born, +self._stays, reason
        load = len(self._owned), work, self._round
        answer: list[Any] = self._server.run("present", *words, *load)
        return answer

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
        if joined or loads.owned >= self.partitions:
            self._surplus.clear()
            self._give_up_surplus(loads, 1.0 if joined else UNEVEN)
        if joined:
            # The worker that has joined owns some then, even if the surplus of each
            # other worker is less than a partition.
            most = -(-self.partitions // loads.workers)
            for number in self._kept_partitions[most:]:
                self._give_up(number)
        self._give_back_idle()
        if loads.owned < self.partitions:
            self._take_share(loads, expired=expired)

    def _fair_share(self, loads: _Loads, work: int = 0) -> float:
        """Return the share of a worker; further ``work`` has no owner."""
        return (loads.work + work + BASE_WORK * self.partitions) / loads.workers

    def _load(self) -> int:
        """Return the work of this worker, without the partitions that it gives back."""
        return sum(
            self._owned[number].work + BASE_WORK for number in self._kept_partitions
        )

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
                    self._returning.discard(number)

    def _note_gap(self, now: float) -> None:
        """Let the other workers renew first, if no worker could reach Redis."""
        lease = self._milliseconds / 1000
        was_away = self._made_up != self._tended_after
        if was_away and now - self._tended > lease / 2:
            self._takes_over_at = now + lease

    def _take_share(self, loads: _Loads, *, expired: bool) -> None:
        """Own further partitions that are free, up to the share of a worker."""
        mine = self._owned.keys() | self._surplus
        others = [n for n in range(self.partitions) if n not in mine]
        self._chance.shuffle(others)
        self._seen_in(others)  # for offers, all of them in one round trip
        self._takes_at = time.monotonic() + self._pause
        self._pause *= 2
        free = self._server.at_once(
            self._partitions[number].is_free(expired=expired) for number in others
        )
        pairs = zip(others, free, strict=True)
        partitions = [self._partitions[number] for number, is_free in pairs if is_free]
        share = self._fair_share(loads, sum(one.work for one in partitions))
        waiting, self._free = self._free, {one.number for one in partitions}
        while partitions:
            load = self._load()
            some: list[OwnedPartition] = []
            rest: list[OwnedPartition] = []
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

    def _take(self, partitions: Sequence[OwnedPartition], *, expired: bool) -> None:
        """Become the owner of partitions, as far as they are free."""
        self._server.at_once(
            one.take(self._milliseconds, expired=expired) for one in partitions
        )
        for partition in partitions:
            if partition.is_owned:
                self._owned[partition.number] = partition

    @property
    def returning(self) -> frozenset[int]:
        """Numbers of the partitions that this worker gives back as soon as it can.

        It can when all its requests in progress there are settled or :meth:`not_begun`.
        No further request of these partitions is handed out.
        """
        return frozenset(self._returning)

    @property
    def _kept_partitions(self) -> list[int]:
        """Partitions that it does not give back, those with the most work first."""
        kept = [number for number in self._owned if number not in self._returning]
        kept.sort(key=lambda number: self._owned[number].work, reverse=True)
        return kept

    def _give_up_surplus(self, loads: _Loads, most: float) -> None:
        """Give partitions up if their work is more than ``most`` fair shares.

        The share itself stays. Some with much work are given up, and some with little.
        """
        share = self._fair_share(loads)
        surplus = self._load() - share
        if surplus <= (most - 1) * share:
            return
        kept = self._kept_partitions
        # Every second one first, because a request in progress keeps a partition here.
        for number in kept[1::2] + kept[::2]:
            work = self._owned[number].work + BASE_WORK
            if work <= surplus:
                surplus -= work
                self._give_up(number)

    def _give_up(self, number: int) -> None:
        """Hand out no further requests of a partition, and leave it to other workers.

        It is given back when this worker works on none of its requests.
        """
        self._surplus.add(number)
        self._returning.add(number)
        here = [lease for lease in self._handed_out if lease.partition == number]
        self._owned[number].not_begun.update(lease.number for lease in here)
        kept = [lease for lease in self._handed_out if lease.partition != number]
        self._handed_out = kept

    def holds(self, lease: RedisLease) -> bool:
        """Whether this worker may still settle a request, as far as it knows.

        Another thread may call this method, like :meth:`last_owner_until`.
        """
        partition = self._owned.get(lease.partition)
        return partition is not None and partition.fence == lease.fence

    def not_begun(self, leases: Iterable[RedisLease]) -> None:
        """Declare that this worker will not begin these requests in progress.

        They are pending again when their partition is given back, so only requests of
        partitions that are :attr:`returning` count.
        """
        for lease in leases:
            if lease.partition in self._returning and self.holds(lease):
                self._owned[lease.partition].not_begun.add(lease.number)
        self._give_back_idle()

    def _give_back_idle(self) -> None:
        """Give back the partitions that it has given up, and does not work on."""
        self._give_back([n for n in self._returning if self._owned[n].is_idle])

    def _give_back(self, numbers: Sequence[int]) -> None:
        self._carry_out({number: self._owned[number].renew(0) for number in numbers})
        if numbers and self._present:  # so that other workers look for them
            self._run_present(self._milliseconds)
