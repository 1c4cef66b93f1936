"""SharedFrontier: the requests of a crawl, for many processes on many machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mmh3 import mmh3_x64_128_digest

from bloomdupe.redis.owner.owning_frontier import OwningFrontier
from bloomdupe.redis.partition import RedisLease, Settled, Taken

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bloomdupe.redis.partition import Offer, SeenMark
    from bloomdupe.redis.server import Talk

__all__ = ["SharedFrontier", "Turn"]


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


class SharedFrontier(OwningFrontier):
    """Pending and leased requests of a crawl on Redis, for a worker.

    Each worker has its own object. It *offers* the requests that it finds, and *leases*
    requests from the partitions that it owns, and *settles* them when they are done,
    together with their lines of output. **Offer the children of a request before you
    settle it**: then every seen request is pending, in progress or done, whenever a
    worker dies.

    :class:`~bloomdupe.redis.open_frontier.OpenFrontier` has the calls that need no
    worker.
    """

    def look(
        self, seconds: float, look: bytes = b"", time: int = 0, gone: Iterable[int] = ()
    ) -> Turn:
        """Ask for the turn to look at all partitions, which one worker has at a time.

        The next turn is in so many ``seconds``. A worker that has it looks at
        ``states``, and calls this again with its ``look``, for the other workers
        and for ``history``; and with the times of this look, and of looks that are
        not needed any more, in Unix milliseconds.
        """
        milliseconds = int(seconds * 1000)
        turn, now, last, run = self._server.run("look", milliseconds, look, time, *gone)
        return Turn(bool(turn), now / 1000, last, run)

    # The life of a request

    def _offer_to(self, partition: int, offers: list[Offer]) -> Talk[bytes]:
        digits = yield from super()._offer_to(partition, offers)
        if b"%d" % Taken.NEW in digits:
            self._partitions[partition].is_dry = False
        return digits

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
        numbers = [number for number in self._owned if number not in self._returning]
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
            self._partitions[lease.partition].ask_again(lease.slot)
        self.offer(offers)
        self.settle(map(Settled, moved))
        kept = [lease for lease in self._handed_out if not self._is_misplaced(lease)]
        self._handed_out = kept

    def _is_misplaced(self, lease: RedisLease) -> bool:
        """Whether the slot of a request belongs to another partition."""
        return lease.partition != self._partition_of(lease.slot)

    def last_owner_until(self, lease: RedisLease) -> float | None:
        """Return the time until which another owner may have sent requests to the slot.

        In seconds of ``time.monotonic()``. None if the times of all its requests are
        known.
        """
        partition = self._owned.get(lease.partition)
        return None if partition is None else partition.last_owner_until

    def may_have_failed(self, request: RedisLease | SeenMark, mark: bytes) -> bool:
        """Whether a failed request in the partition of this request has this mark.

        See :class:`~bloomdupe.redis.settled.failed_requests.FailedRequest`. Another
        thread may call this.
        """
        if isinstance(request, RedisLease):
            number = request.partition
        else:
            number = self._partition_of(request.slot)
        partition = self._owned.get(number)
        return partition is not None and partition.failed.has_mark(mark)

    def ask_again(self, slot: str) -> None:
        """Let a slot have its next turn."""
        partition = self._owned.get(self._partition_of(slot))
        if partition is not None:
            partition.ask_again(slot)

    def settle(
        self, done: Iterable[tuple[RedisLease, Sequence[bytes]] | Settled]
    ) -> list[RedisLease]:
        """Settle or leave requests, with the lines of output of each.

        Returns the refused settlements, because their partitions have another owner by
        now: they were handed out again, and their lines are not kept. All children of a
        request must have been offered. Children that were done as a part of it are
        *marked* as seen instead. A request may also *rely* on another request of this
        worker that has yielded the same child: then it is settled only if the worker
        still has that other request. If not, it becomes pending again, and is returned,
        too.
        """
        self._make_up()
        all_done = [one if isinstance(one, Settled) else Settled(*one) for one in done]
        all_done = self._with_claims(all_done)
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
        settled = (one.lease for one in all_done if one.left is None)
        return [lease for lease in settled if lease.token in refused]

    def rewrite(self, lease: RedisLease, payload: bytes) -> None:
        """Store a request in progress anew, for the next owner of its partition."""
        if self.holds(lease):
            number = lease.partition
            self._carry_out({number: self._owned[number].rewrite(lease, payload)})

    def claim(self, offers: Iterable[Offer]) -> list[bool]:
        """Claim the keys of requests; say of each whether it gets its key.

        See :attr:`Offer.claimed_as`. Only :meth:`settle` has use for it.
        """
        return list(map(bool, self._ask_of(list(offers), self._claim_in)))

    def _with_claims(self, done: list[Settled]) -> list[Settled]:
        """Leave out the requests that do not get the keys which they claim.

        Keys are claimed before the settlement. If the request is not settled then, it
        is done again, and claims the key under the same name.
        """
        claims = [
            offer
            for one in done
            for offer in one.instead
            if offer.claimed_as is not None
        ]
        if not claims:
            return done
        answers = iter(self.claim(claims))

        def is_accepted(offer: Offer) -> bool:
            return offer.claimed_as is None or next(answers)

        return [
            one._replace(instead=[*filter(is_accepted, one.instead)]) for one in done
        ]

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
