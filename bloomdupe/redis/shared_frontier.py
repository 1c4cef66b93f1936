"""SharedFrontier: the requests of a crawl, for many processes on many machines."""

from __future__ import annotations

import json
import secrets
import socket
import time
from contextlib import ExitStack
from random import Random
from typing import TYPE_CHECKING, Any

from mmh3 import mmh3_32_uintdigest

from bloomdupe.errors import (
    SettingError,
    StoreError,
    StoreMismatchError,
)
from bloomdupe.filter.parameters import Parameters
from bloomdupe.redis.address import Address
from bloomdupe.redis.cookie_store import CookieStore
from bloomdupe.redis.frontier_header import (
    NAMED,
    check_partitions,
    header_of,
    mark_of,
    part_of,
)
from bloomdupe.redis.kept_offers import KeptOffers
from bloomdupe.redis.partition import (
    Offer,
    Partition,
    RedisLease,
    SeenMark,
    Settled,
    Taken,
)
from bloomdupe.redis.redis_filter import RedisFilter
from bloomdupe.redis.server import Server
from bloomdupe.redis.shared_import import Imports

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from typing_extensions import Self

    from bloomdupe.redis.failed_requests import StoredFailure
    from bloomdupe.redis.frontier_reader import OnRedis
    from bloomdupe.redis.partition import (
        Counts,
        LeftRequest,
        OutputEntry,
        OutputLine,
        Pending,
    )

__all__ = ["SharedFrontier"]

MIN_LEASE = 0.05
"""Seconds."""
FAILED_AT_ONCE = 500
"""Failed requests per script."""
PAUSE = 0.25
"""Seconds after which a worker first looks again for partitions."""


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
    ) -> None:
        self._server = server
        self.identity: dict[str, Any] = header["identity"]
        """The identity that the creator of the frontier has given to it."""
        self._parameters = Parameters.from_header(header, server.address.shown)
        self.mark = mark_of(header)
        """A digest that identifies it; a later frontier of the same name differs."""
        self._size: int = header["partitions"]
        self.names_start_items = NAMED in header
        """Whether items of ``start()`` have names; earlier versions counted them."""
        self.worker = worker
        self._milliseconds = int(lease_seconds * 1000)
        self._fifo = fifo
        self._replicas = replicas
        self.partition_by: str = header["partition_by"]
        """The rule that assigns requests to partitions: ``slot`` or ``url``."""
        self._by_slot = self.partition_by == "slot"
        self._partitions: dict[int, Partition] = {}
        self._owned: dict[int, Partition] = {}
        # Given back as soon as this worker works on none of their requests.
        self._leaving: set[int] = set()
        self._handed_out: list[RedisLease] = []
        # Offers that are repeated after an interruption, and the number of the
        # interruptions after which they were repeated.
        self._kept = KeptOffers()
        self.cookies = CookieStore(server, worker)
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
        # When partitions are looked for next that were given back, and the time until
        # the look after that.
        self._takes_at, self._pause = 0.0, PAUSE
        self.clock_ahead = 0.0
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
        partition_by: str | None = None,
        identity: dict[str, Any] | None = None,
        key: bytes | None = None,
    ) -> Self:
        """Open the frontier that a URL names, or create it there.

        See :class:`~bloomdupe.redis.address.Address` for the URL. ``capacity`` is the
        expected number of requests, and ``fpp`` the probability that a new request is
        taken for seen. ``partitions`` is the highest number of workers.
        ``partition_by`` is the rule that assigns a request to a partition: by its
        ``"slot"`` (the default), so that one worker has all requests of a slot, or by
        its ``"url"``, which means its fingerprint. These four never change afterwards.

        The name of a ``worker`` must be unique; by default it is drawn at random. With
        ``fifo``, the oldest request of a slot has its turn first, among requests of the
        same priority. So many ``replicas`` must confirm an offer before it counts.
        ``identity`` says to which crawl the frontier belongs, in JSON; opening it with
        a different identity is refused. ``key`` is the secret key of a new frontier.

        Raises :class:`~bloomdupe.errors.SettingError`,
        :class:`~bloomdupe.errors.StoreMismatchError` if the frontier was made with
        other parameters, and the errors of a server in trouble.
        """
        check_partitions(partitions, partition_by)
        if not lease_seconds >= MIN_LEASE:
            raise SettingError(
                f"lease_seconds = {lease_seconds!r}: expected {MIN_LEASE} at least"
            )
        address = Address.of(url)
        server = Server(address)
        with ExitStack() as undo:
            undo.callback(server.close)
            header = header_of(
                server, capacity, fpp, partitions, partition_by, identity, key
            )
            name = worker or f"{socket.gethostname()}-{secrets.token_hex(6)}"
            frontier = cls(
                server, header, name, lease_seconds, fifo=fifo, replicas=replicas
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
        partition_by: str,
        identity: dict[str, Any],
    ) -> None:
        """Raise the errors that :meth:`open` would raise; create nothing."""
        check_partitions(partitions, partition_by)
        server = Server(Address.of(url))
        try:
            if server.fields():
                header_of(server, capacity, fpp, partitions, partition_by, identity)
                Imports(server).check_ended()
        finally:
            server.close()

    @classmethod
    def identity_at(cls, url: str) -> dict[str, Any] | None:
        """Return the identity of the frontier at a URL; None if there is none there."""
        server = Server(Address.of(url))
        try:
            if not server.fields():
                return None
            header = header_of(server, None, None, None, None, None)
            identity: dict[str, Any] = header["identity"]
            return identity
        finally:
            server.close()

    def close(self, not_begun: Iterable[RedisLease] = ()) -> None:
        """Give back all partitions, and close the connection.

        See :meth:`not_begun`.
        """
        try:
            for number in self._owned.keys() - self._leaving:
                self._hand_out_no_more(number)
            self.not_begun(not_begun)
            while self._owned:
                _, partition = self._owned.popitem()
                partition.renew(0)
            if self._present:
                self._present = False
                self._server.run("present", self.worker, 0, 0)
        finally:
            self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Partitions

    def _partition_of(self, offer: Offer | SeenMark) -> int:
        # Never change this: seen requests would be looked up in the wrong place.
        by = offer.slot.encode() if self._by_slot else offer.fingerprint
        return mmh3_32_uintdigest(by) % self._size

    def _partition(self, number: int) -> Partition:
        found = self._partitions.get(number)
        if found is None:
            server = part_of(self._server, number)
            seen = RedisFilter.on(server, dict.fromkeys(vars(self._parameters)))
            found = Partition(number, server, seen, self.worker, fifo=self._fifo)
            self._partitions[number] = found
        return found

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

        Each worker that is alive owns the same number of partitions, or one more.

        If Redis was away, and the leases were not renewed for half their time, no
        expired lease is taken for the time of a lease, because the other workers could
        not renew theirs either.
        """
        workers = self._announce()
        self._renew(list(self._owned))
        now = time.monotonic()
        self._note_gap(now)
        self._share_among(workers, expired=now >= self._takes_over_at)

    def look_around(self) -> None:
        """Take or give back partitions if workers have come or gone since.

        Costs one script otherwise. A worker with less than its share also looks for
        partitions that were given back, less and less often.
        """
        workers = self._announce()
        if workers != self._workers:
            self._share_among(workers, expired=False)
        elif (
            len(self._owned) < self._share_of(workers)
            and time.monotonic() >= self._takes_at
        ):
            self._take_up_to(self._share_of(workers), expired=False)

    def _announce(self) -> int:
        """Say that this worker is alive; return the number of workers that are."""
        self._make_up()
        self._present = True
        workers: int = self._server.run(
            "present", self.worker, self._milliseconds, self.imports.number
        )
        if workers < 0:
            raise self.imports.changed()
        return workers

    def _share_of(self, workers: int) -> int:
        return -(-self._size // workers)

    def _share_among(self, workers: int, *, expired: bool) -> None:
        """Take or give back partitions, so that each worker has its share.

        Those of which the lease has ``expired`` may be taken, too.
        """
        share = self._share_of(workers)
        if workers != self._workers:
            self._workers, self._pause = workers, PAUSE
        self._leave_all_but(share)
        self._give_back_idle()
        if len(self._owned) < share:
            self._take_up_to(share, expired=expired)

    def _renew(self, numbers: Iterable[int]) -> None:
        """Renew the leases of partitions, unless another worker owns them by now."""
        for number in numbers:
            if not self._owned[number].renew(self._milliseconds):
                self._lost(number)

    def _note_gap(self, now: float) -> None:
        """Let the other workers renew first, if no worker could reach Redis."""
        lease = self._milliseconds / 1000
        was_away = self._made_up != self._tended_after
        if was_away and now - self._tended > lease / 2:
            self._takes_over_at = now + lease
        self._tended, self._tended_after = now, self._made_up

    def _take_up_to(self, share: int, *, expired: bool) -> None:
        """Become the owner of further partitions, as far as they are free."""
        others = [n for n in range(self._size) if n not in self._owned]
        self._chance.shuffle(others)
        self._takes_at = time.monotonic() + self._pause
        self._pause *= 2
        for number in others:
            partition = self._partition(number)
            if partition.take(self._milliseconds, expired=expired):
                self._owned[number] = partition
                self.clock_ahead = partition.clock_ahead
                self._pause = PAUSE
                if len(self._owned) == share:
                    break

    @property
    def leaving(self) -> frozenset[int]:
        """Numbers of the partitions that this worker gives back as soon as it can.

        It can when all its requests in progress there are settled or :meth:`not_begun`.
        No further request of these partitions is handed out.
        """
        return frozenset(self._leaving)

    def _leave_all_but(self, share: int) -> None:
        """Leave partitions if they are too many: some with much work, and some without.

        So the next owners get their part of the slots, however few have requests.
        """
        kept = [number for number in self._owned if number not in self._leaving]
        surplus = len(kept) - share
        if surplus <= 0:
            return
        work = {number: self._work_in(number) for number in kept}
        kept.sort(key=work.__getitem__, reverse=True)
        for place in range(surplus):
            # Evenly spread; of two partitions, the one with less work.
            self._hand_out_no_more(kept[(2 * place + 1) * len(kept) // (2 * surplus)])

    def _work_in(self, number: int) -> tuple[int, int]:
        """Return the number of slots with requests, and of requests."""
        counts = self._partition(number).counts()
        return counts.slots, counts.pending + counts.leased

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
        for number in list(self._leaving):
            self._give_back(number)

    def _give_back(self, number: int) -> None:
        """Give a partition back, if this worker works on none of its requests."""
        partition = self._owned[number]
        if partition.is_idle:
            partition.renew(0)
            self._lost(number)

    def _lost(self, number: int) -> None:
        del self._owned[number]
        self._leaving.discard(number)

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
        by_partition: dict[int, list[tuple[int, Offer | SeenMark]]] = {}
        elsewhere = self.imports.knows([offer.known_as for offer in offers])
        for index, offer in enumerate(offers):
            if elsewhere[index]:
                continue
            # In this order: without the mark, it is done twice, and not lost.
            for one in (offer, offer.also):
                if one is not None:
                    to = by_partition.setdefault(self._partition_of(one), [])
                    to.append((index, one))
        new = [int(Taken.SEEN)] * len(offers)
        for number, said in by_partition.items():
            answers = self._partition(number).offer([one for _, one in said])
            for (index, one), answer in zip(said, answers, strict=True):
                if type(one) is Offer:
                    new[index] = answer
        if self._replicas:
            self._replicate(by_partition)
        return new

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
        known = self.imports.knows([mark.fingerprint for mark in marks])
        for number, indices in self._by_partition(marks).items():
            keys = [marks[i].fingerprint for i in indices]
            answers = self._partition(number).seen.contains_many(keys)
            for index, answer in zip(indices, answers, strict=True):
                known[index] |= answer
        return known

    def mark_seen(self, marks: Sequence[SeenMark]) -> None:
        """Mark requests as seen without adding them to the pending requests."""
        self._make_up()
        for number, indices in self._by_partition(marks).items():
            keys = [marks[i].fingerprint for i in indices]
            self._partition(number).seen.update(keys)

    def _by_partition(self, marks: Sequence[SeenMark]) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for index, mark in enumerate(marks):
            found.setdefault(self._partition_of(mark), []).append(index)
        return found

    def lease(self, count: int, of_each: int = 16) -> list[RedisLease]:
        """Hand out up to ``count`` requests, each to be settled.

        The slots have their turns. Of a slot, up to ``of_each`` are handed out at once;
        then it has its next turn after :meth:`ask_again`.
        """
        self._make_up()
        leases = self._handed_out  # not lost if a later partition does not answer
        numbers = [number for number in self._owned if number not in self._leaving]
        self._chance.shuffle(numbers)
        for number in numbers:
            if len(leases) >= count:
                break
            partition = self._owned[number]
            leases += partition.lease(count - len(leases), of_each)
            if not partition.fence:
                self._lost(number)
        self._handed_out = leases[count:]
        return leases[:count]

    def holds(self, lease: RedisLease) -> bool:
        """Whether this worker may still settle a request, as far as it knows.

        Another thread may call this method, like :meth:`last_owner_until`.
        """
        partition = self._owned.get(lease.partition)
        return partition is not None and partition.fence == lease.fence

    def last_owner_until(self, lease: RedisLease) -> float | None:
        """Return the time until which another owner may have sent requests to the slot.

        In seconds of ``time.monotonic()``. None if the times of all its requests are
        known, or if the slot may have several owners at a time.
        """
        partition = self._owned.get(lease.partition)
        if partition is None or not self._by_slot:
            return None
        return partition.last_owner_until

    def may_have_failed(self, request: RedisLease | SeenMark, mark: bytes) -> bool:
        """Whether a failed request in the partition of this request has this mark.

        See :class:`~bloomdupe.redis.failed_requests.FailedRequest`. Another thread may
        call this.
        """
        if isinstance(request, RedisLease):
            number = request.partition
        else:
            number = self._partition_of(request)
        partition = self._owned.get(number)
        return partition is not None and partition.failed.has_mark(mark)

    def ask_again(self, slot: str) -> None:
        """Let a slot have its next turn."""
        if self._by_slot:
            number = self._partition_of(Offer(slot, b"", b""))
            asked = [self._owned[number]] if number in self._owned else []
        else:
            asked = list(self._owned.values())
        for partition in asked:
            partition.ask_again(slot)

    def may_stand_in(self, offer: Offer | SeenMark, lease: RedisLease) -> bool:
        """Whether a new request may take the place of a request that is done.

        Then one step settles the old request and makes the new request pending, so that
        never both are to be done. They must be in the same partition, and the new
        request is not marked as seen. Any thread may call this.
        """
        return not self._by_slot or self._partition_of(offer) == lease.partition

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
            again_pending = one.lease.token in again
            step = Settled(one.lease, instead=one.lease.again) if again_pending else one
            by_owner.setdefault(owner, []).append(step)
        for (number, fence), some in by_owner.items():
            partition = self._owned.get(number)
            if partition is None or partition.fence != fence:
                refused.update(one.lease.token for one in some)
            elif not partition.settle(some):
                self._lost(number)
                refused.update(one.lease.token for one in some)
            elif number in self._leaving:
                self._give_back(number)
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
        for number, some in by_partition.items():
            partition = self._owned[number]
            partition.leave(some)
            if not partition.fence:
                self._lost(number)
            elif number in self._leaving:
                self._give_back(number)
            for one in some:
                self._kept.settled(one.lease)

    # Its contents

    def counts(self) -> list[Counts]:
        """Count the requests in each partition, one after another."""
        return [self._partition(number).counts() for number in range(self._size)]

    @property
    def finished(self) -> bool:
        """Whether no request is pending or in progress in any partition."""
        return self.left_over() == (0, 0)

    def left_over(self) -> tuple[int, int] | None:
        """Count the requests that were left, and those that cannot be restored.

        None if any other request is pending.

        With no other request pending, new requests can come only as offers that have no
        parent. The partitions are looked at twice, because they are looked at one after
        another: if each of them was empty at the first look, and has accepted nothing
        until the second look, all of them were empty at one moment in between.

        The look ends at the first partition that is not empty, and the next look begins
        there. So repeated calls cost Redis one script each, not one script for each
        partition.
        """
        self._make_up()
        first: dict[int, Counts] = {}
        for place in range(self._size):
            number = (self._busy + place) % self._size
            counts = self._partition(number).counts()
            first[number] = counts
            if counts.slots or counts.leased > counts.left:
                self._busy = number
                return None
        for number, found in first.items():
            counts = self._partition(number).counts()
            if counts.state != found.state:
                return None
        aside = sum(found.aside for found in first.values())
        return sum(found.left for found in first.values()) - aside, aside

    def failures(self) -> Iterator[StoredFailure]:
        """Yield the failed requests of all partitions."""
        self._make_up()
        for number in range(self._size):
            yield from self._partition(number).failures()

    def drop(
        self, partition: int, slot: str, found: Sequence[tuple[OnRedis, bytes]]
    ) -> int:
        """Remove pending requests of a slot; see :meth:`Partition.drop`."""
        return self._partition(partition).drop(slot, found)

    def import_failures(self, failed: Iterable[tuple[SeenMark, StoredFailure]]) -> None:
        """Store failed requests, unless they are there, in the partitions of marks."""
        self._make_up()
        by_partition: dict[int, list[StoredFailure]] = {}
        for mark, one in failed:
            by_partition.setdefault(self._partition_of(mark), []).append(one)
        for number, some in by_partition.items():
            for first in range(0, len(some), FAILED_AT_ONCE):
                portion = some[first : first + FAILED_AT_ONCE]
                self._partition(number).import_failures(portion)

    def requeue(self, failed: Iterable[tuple[StoredFailure, Offer]]) -> int:
        """Make failed requests pending again, each as an offer.

        Returns how many there are, without those that were pending already.
        """
        self._make_up()
        by_partition: dict[int, list[tuple[StoredFailure, Offer]]] = {}
        for one in failed:
            by_partition.setdefault(one[0].partition, []).append(one)
        return sum(
            self._partition(number).requeue(some[first : first + FAILED_AT_ONCE])
            for number, some in by_partition.items()
            for first in range(0, len(some), FAILED_AT_ONCE)
        )

    # As a whole, while no worker is running

    def hold(self) -> None:
        """Own all partitions; requests in progress become pending again.

        Raises :class:`~bloomdupe.errors.StoreError` while workers are running, or until
        the lease of a killed worker has run out. :meth:`close` gives the partitions
        back.
        """
        there = self._server.run("present", self.worker, 0, 0)
        for number in range(self._size):
            if there or not self._partition(number).take(self._milliseconds):
                raise StoreError(
                    f"{self.shown}: workers are there ({there or 1} at least). Stop"
                    " them (Ctrl-C once each); one that was killed is gone when"
                    " BLOOMDUPE_REDIS_LEASE has run out"
                )
            self._owned[number] = self._partition(number)

    def keep_holding(self) -> None:
        """Renew the leases of all partitions; call it within ``lease_seconds``.

        Raises :class:`~bloomdupe.errors.StoreError` if another worker has come.
        """
        for partition in self._owned.values():
            if not partition.renew(self._milliseconds):
                raise StoreError(
                    f"{self.shown}: a worker has begun meanwhile; stop it, and try"
                    " again"
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
