"""OwnedPartition: the steps of a partition's owner, each a single script."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.errors import StoreError
from bloomdupe.redis.partition import RedisLease, Settled
from bloomdupe.redis.server import Call
from bloomdupe.redis.settled.failed_requests import FailedKeys
from bloomdupe.redis.settled.tally import Tally, packed_groups

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bloomdupe.redis.server import Server, Talk
    from bloomdupe.redis.settled.failed_requests import FailedRequest
    from bloomdupe.redis.settled.tally import Numbers

__all__ = ["OwnedPartition"]

MOST_GROUPS = 64
"""Groups of counts of a partition, such as slots: the owner gets them all."""


class _Step(NamedTuple):
    """A step that only the owner may do: a script, its arguments, and its effects."""

    script: str
    arguments: tuple[bytes | str | int, ...]
    settles: tuple[bytes, ...] = ()
    again: tuple[str, ...] = ()
    failed: tuple[FailedRequest, ...] = ()
    totals: Numbers = MappingProxyType({})
    of_each: int = 0


class OwnedPartition:
    """A partition that a worker owns, or may take.

    Its steps are talks, so that many partitions share a round trip: see
    :meth:`Server.at_once <bloomdupe.redis.server.Server.at_once>`. Only one talk at a
    time may be carried out.

    Every talk may be begun again after a
    :class:`~bloomdupe.errors.StoreUnreachableError`: if the step was done and only its
    answer was lost, it is not done a second time.
    """

    def __init__(self, number: int, server: Server, worker: str, *, fifo: bool) -> None:
        self.number = number
        self.server = server
        self._worker = worker
        self._fifo = fifo
        self.fence = ""
        """The owner's fencing token; empty: this worker is not the owner."""
        self.work = 0
        """Its pending requests and requests in progress, at the last look."""
        self.is_dry = False
        """Whether nothing can be handed out, unless other workers have offered it."""
        self.in_progress: set[bytes] = set()
        """Numbers of the requests in progress."""
        self.not_begun: set[bytes] = set()
        """Numbers of the requests in progress that this worker will not begin."""
        self.last_owner_until: float | None = None
        """Time until which the previous owner may have sent requests whose times are
        not known, in seconds of ``monotonic()``; None: there are no such requests.
        """
        self.failed = FailedKeys()
        """The failed requests of the partition; empty if it is not the owner."""
        self._tally = Tally(MOST_GROUPS)
        self._step = 0
        self._unanswered: _Step | None = None
        self._handed_out: list[RedisLease] = []
        # Slots that have had a turn, and may have further requests.
        self._parked: set[str] = set()
        self._again: set[str] = set()
        # The slot whose turn has begun, and the requests that it has had in this turn.
        self._turn: tuple[str, int] = ("", 0)

    def is_free(self, *, expired: bool) -> Talk[bool]:
        """Return whether :meth:`take` would make this worker the owner."""
        words = self._worker, 0, "", +expired
        free, self.work, *_ = yield Call(self.server, "take", words)
        return bool(free)

    def take(self, milliseconds: int, *, expired: bool = True) -> Talk[None]:
        """Become the owner, unless another worker is.

        ``expired`` allows taking the partition from an owner after its lease has run
        out.
        """
        self.lose()
        fence = secrets.token_hex(8)
        words = self._worker, milliseconds, fence, +expired
        answer = yield Call(self.server, "take", words)
        taken, work, since, failed, totals = answer
        if taken:
            self.work = work
            self.fence = fence
            self._step = 0
            self.failed.begin(failed)
            self._tally.begin(totals)
            self.is_dry = False
            self.last_owner_until = None
            if since >= 0:
                self.last_owner_until = time.monotonic() - since / 1000

    def renew(self, milliseconds: int) -> Talk[None]:
        """Stay the owner, unless another worker is by now. 0 gives it back."""
        words = self._worker, self.fence, milliseconds, +self.is_idle
        work = yield Call(self.server, "renew", words)
        if work < 0 or not milliseconds:
            self.lose()
        else:
            self.work = work

    @property
    def is_owned(self) -> bool:
        """Whether this worker is the owner, as far as it knows."""
        return bool(self.fence)

    def lose(self) -> None:
        """Forget everything that only the owner may use."""
        self.fence = ""
        self.in_progress.clear()
        self.not_begun.clear()
        self._unanswered = None
        self._handed_out.clear()
        self._parked.clear()
        self._again.clear()
        self.failed.begin(())
        self._tally.begin(())
        self._turn = "", 0

    @property
    def is_idle(self) -> bool:
        """Whether this worker works on no request of it, and will begin no request."""
        undelivered = {lease.number for lease in self._handed_out}
        return self.in_progress <= self.not_begun | undelivered

    def ask_again(self, slot: str) -> None:
        """Let a slot have its next turn, after it has had a turn."""
        if slot in self._parked:
            self._again.add(slot)
            self.is_dry = False

    def lease(self, count: int, of_each: int) -> Talk[None]:
        """Get up to ``count`` requests for :meth:`handed_out`, ``of_each`` of a slot.

        A slot with further pending requests is then left out until :meth:`ask_again`.
        There are no requests if another worker is the owner.
        """
        yield from self._repeat()
        if len(self._handed_out) < count:
            again = tuple(sorted(self._again))
            left = count - len(self._handed_out)
            step = _Step(
                "lease",
                (left, of_each, *self._turn, *again),
                again=again,
                of_each=of_each,
            )
            yield from self._do(step)

    def handed_out(self, count: int) -> list[RedisLease]:
        """Return up to ``count`` requests that Redis has handed out."""
        leases = self._handed_out[:count]
        del self._handed_out[:count]
        self.is_dry = len(leases) < count and not self._again
        return leases

    def settle(self, done: Sequence[Settled]) -> Talk[None]:
        """Settle or leave requests, and store the lines of output of each.

        Requests that this worker has settled or left before are left out. Changes
        nothing if another worker is the owner.
        """
        yield from self._repeat()
        done = [one for one in done if one.lease.number in self.in_progress]
        if done:
            numbers = tuple(one.lease.number for one in done)
            settled = [one.lease.number for one in done if one.left is None]
            left = [
                word
                for one in done
                if one.left is not None
                for word in (one.lease.number, one.left, one.reason, int(one.is_ending))
            ]
            instead = [offer for one in done for offer in one.instead]
            waiting = [w for offer in instead for w in offer.words(fifo=self._fifo)]
            lines = [line for one in done for line in one.lines]
            states = _states_of(done)
            failed = tuple(one.failed for one in done if one.failed is not None)
            changes: list[bytes | int] = [word for one in failed for word in one]
            totals = self._tally.plus(one.counts for one in done)
            arguments = (
                b"".join(settled), len(left) // 4, len(instead), len(states) // 3,
                len(failed), len(totals), *left, *waiting, *states, *changes,
                *packed_groups(totals), *lines,
            )  # fmt: skip
            step = _Step("settle", arguments, numbers, failed=failed, totals=totals)
            yield from self._do(step)
            if instead:
                self.is_dry = False

    def rewrite(self, lease: RedisLease, payload: bytes) -> Talk[None]:
        """Store a request in progress anew, for the next owner of the partition."""
        if lease.number in self.in_progress:
            yield from self.settle([Settled(lease, left=payload, is_ending=True)])
            if self.fence == lease.fence:
                self.in_progress.add(lease.number)

    def _do(self, step: _Step) -> Talk[None]:
        """Do a step of the owner; the previous step must have been answered."""
        if self.fence:
            self._unanswered = step
            yield from self._repeat()

    def _repeat(self) -> Talk[None]:
        """Send the unanswered step again; Redis does not do a step twice."""
        step = self._unanswered
        if step is None:
            return
        words = self._worker, self.fence, self._step + 1, *step.arguments
        state, *answer = yield Call(self.server, step.script, words)
        if state == b"lost":
            self.lose()
            return
        self._unanswered = None
        if state != b"done":
            raise StoreError(
                f"{self.server.address.shown}: a request is settled or left that is not"
                " handed out; nothing has happened"
            )
        self._step += 1
        handed = []
        for number, slot, score, *rest in zip(*[iter(answer)] * 5, strict=True):
            self.in_progress.add(number)
            priority = -int(float(score))
            lease = (self.number, self.fence, number, slot.decode(), priority, *rest)
            handed.append(RedisLease(*lease))
        self._handed_out += handed
        self._parked.difference_update(step.again)
        self._count_turns([lease.slot for lease in handed], step.of_each)
        self.in_progress.difference_update(step.settles)
        self._again.difference_update(step.again)
        for failed in step.failed:
            self.failed.change(failed)
        self._tally.change(step.totals)

    def _count_turns(self, slots: list[str], of_each: int) -> None:
        """Remember which slots have had as many requests as they may have in a turn.

        The last slot may have had fewer: then its turn goes on.
        """
        if slots:
            counts = Counter(slots)
            slot, had = self._turn
            if slot in counts:
                counts[slot] += had
            self._parked.update(one for one, had in counts.items() if had >= of_each)
            last = slots[-1]
            self._turn = (last, counts[last]) if counts[last] < of_each else ("", 0)


def _states_of(some: Iterable[Settled]) -> tuple[bytes | str | int, ...]:
    """Return the words for the latest state of each slot."""
    latest = {one.about.slot: one.about for one in some if one.about is not None}
    return tuple(word for about in latest.values() for word in about.words)
