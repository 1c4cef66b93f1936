"""Partition: a part of a shared frontier with an owner, changed by single scripts."""

from __future__ import annotations

import hashlib
import math
import secrets
import time
from collections import Counter
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.errors import StoreDamagedError, StoreError
from bloomdupe.redis.server import Call
from bloomdupe.redis.settled.failed_requests import FailedKeys, read_failures
from bloomdupe.redis.settled.tally import Tally, packed_groups, unpacked_groups

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bloomdupe.redis.frontier_reader import OnRedis
    from bloomdupe.redis.redis_filter import RedisFilter
    from bloomdupe.redis.server import Server, Talk
    from bloomdupe.redis.settled.failed_requests import FailedRequest, StoredFailure
    from bloomdupe.redis.settled.tally import Numbers

__all__ = [
    "NO_ENTRY",
    "AboutSlot",
    "Counts",
    "LeftRequest",
    "Offer",
    "OutputEntry",
    "OutputLine",
    "Partition",
    "PartitionTotals",
    "Pending",
    "RedisLease",
    "SeenMark",
    "Settled",
    "SlotBounds",
    "Taken",
    "stored_slot",
]

MAX_SLOT_BYTES = 1_000
"""A page may link to a host with any name, though no such host can exist."""
SHOWN_OF_SLOT = 100
"""Characters."""
ENTRIES_AT_ONCE = 100
FORGOTTEN_AT_ONCE = 10_000
"""Entries per script, which blocks Redis for some milliseconds."""

NUMBER_BYTES = 9
"""Bytes of a request's number, which precedes its payload."""
NO_BOUND = 2**53
PRIORITY_LIMIT = (1 << 63) - 1
"""A priority beyond it counts as this: a score of Redis is a double."""
MOST_GROUPS = 64
"""Groups of counts of a partition, such as slots: the owner gets them all."""
READ_AT_ONCE = 500
"""Requests, or names of slots, per command."""

NO_ENTRY = b"0-0"
"""A number before the numbers of all entries."""


class Taken(IntEnum):
    """The answer to an offer."""

    SEEN = 0
    NEW = 1
    PAGE_LIMIT = 2
    """It is new, and refused: its slot has had as many requests as it may have."""
    PENDING_LIMIT = 3
    """It is new, and refused: as many requests of its slot are pending as may be."""


def stored_slot(slot: str) -> bytes:
    """Return the name under which Redis keeps a slot.

    That is its own name, unless the name is very long. Half of a surrogate pair is
    replaced.
    """
    name = slot.encode(errors="replace")
    if len(name) <= MAX_SLOT_BYTES:
        return name
    digest = hashlib.sha256(name).hexdigest()
    return f"{slot[:SHOWN_OF_SLOT]}... {digest}".encode(errors="replace")


class SlotBounds(NamedTuple):
    """The limits of a slot with which a request is offered, and counted."""

    pages: int = NO_BOUND
    """Requests that were ever offered with bounds, and accepted."""
    pending: int = NO_BOUND
    """Requests that no worker has at hand."""


class Offer(NamedTuple):
    """A request that may be new."""

    slot: str
    """The downloader's slot, a host as a rule; see :func:`stored_slot`."""
    fingerprint: bytes
    """The key that identifies it; a request with a known key is not accepted again."""
    payload: bytes
    """The request itself, which is returned unchanged."""
    priority: int = 0
    """Within a slot, the request with the highest priority has its turn first."""
    start: bool = False
    """Whether it has its turn after other requests of the same priority."""
    of: RedisLease | None = None
    """The request in progress on this worker that has yielded it."""
    also: SeenMark | None = None
    """A further mark for it, such as the fingerprint of a start page's request. It is
    set in any case.
    """
    known_as: bytes | None = None
    """The fingerprint under which it may have been seen before an import. None: no
    import has seen it.
    """
    bounds: SlotBounds | None = None
    """The limits of its slot; None: it is accepted in any case, and not counted."""
    not_before: float | None = None
    """Unix time by Redis' clock before which it is not handed out, if it has one. It
    is scheduled for later until then.
    """


class RedisLease(NamedTuple):
    """A request that was handed out."""

    partition: int
    fence: str
    """The fencing token of the owner."""
    number: bytes
    slot: str
    priority: int
    payload: bytes
    about: bytes = b""
    """The state of the slot, if it has one; only with one request of a slot."""

    @property
    def token(self) -> tuple[int, str, bytes]:
        """A key for dictionaries; the hash of the lease would read the payload."""
        return self.partition, self.fence, self.number

    @property
    def again(self) -> Offer:
        """The same request as an offer, to make it pending again."""
        start = self.number[:1] in b"cd"
        return Offer(self.slot, b"", self.payload, self.priority, start)


class SeenMark(NamedTuple):
    """A request that counts as seen, though it was never offered."""

    slot: str
    fingerprint: bytes


class AboutSlot(NamedTuple):
    """The state of a slot, for the next owner of its partition."""

    slot: str
    state: bytes
    """Nothing: it has none any more."""
    seconds: float
    """For which it is kept though no request of the slot is pending; infinite if this
    worker has further requests of the slot.
    """

    @property
    def words(self) -> tuple[str, bytes, int]:
        """The arguments of the script."""
        milliseconds = -1 if self.seconds == math.inf else int(self.seconds * 1000)
        return self.slot, self.state, milliseconds


class Settled(NamedTuple):
    """A request that is done."""

    lease: RedisLease
    lines: Sequence[bytes] = ()
    """Its lines of output."""
    instead: Sequence[Offer] = ()
    """The requests that take its place in the same step, such as its retry: never is
    one of them pending together with it. They are not marked as seen. If the slot of
    one belongs to another partition, it moves there before it is handed out.
    """
    marks: Sequence[SeenMark] = ()
    """Requests that were done as a part of it, without being offered."""
    relies: Sequence[RedisLease] = ()
    """Requests of this worker that have yielded the same request: see
    :meth:`SharedFrontier.settle
    <bloomdupe.redis.shared_frontier.SharedFrontier.settle>`.
    """
    about: AboutSlot | None = None
    """The new state of its slot, if that has changed."""
    failed: FailedRequest | None = None
    """The change that it makes to the failed requests, if it makes one."""
    counts: Numbers = MappingProxyType({})
    """Numbers to add to the counts of the partition."""


class LeftRequest(NamedTuple):
    """A request that this worker will not settle."""

    lease: RedisLease
    payload: bytes
    """The new payload."""
    lines: Sequence[bytes] = ()
    """Lines of output that count all the same."""
    reason: str = ""
    """The reason why it cannot be restored, or nothing; kept until it is settled."""
    about: AboutSlot | None = None
    """The new state of its slot, if that has changed."""


class OutputLine(NamedTuple):
    """A line of output of a request that is done."""

    partition: int
    number: bytes
    """Number of the settlement; numbers increase."""
    worker: str
    line: bytes


class OutputEntry(NamedTuple):
    """The lines of output that were stored in one step and belong together."""

    number: bytes
    """Numbers increase."""
    worker: str
    lines: list[bytes]


class Pending(NamedTuple):
    """A pending request, read without being handed out."""

    slot: str
    priority: int
    start: bool
    """Whether it has its turn after other requests of the same priority."""
    newest_first: bool
    """Whether the newest request of the same priority has its turn first."""
    payload: bytes


class Counts(NamedTuple):
    """Counts of the requests in a partition at one moment."""

    pushed: int
    """Requests that were ever accepted, and not removed by hand."""
    slots: int
    """Slots with pending requests."""
    leased: int
    """Requests in progress: handed out and not done."""
    done: int
    """Requests that are done."""
    worker: str
    """Its current or last owner; empty if it was given back."""
    left: int
    """Requests in progress that the owner will not settle."""
    aside: int
    """Those of them that cannot be restored."""
    later: int
    """Requests scheduled for later."""
    milliseconds: int
    """Until the first of these is due."""

    @property
    def pending(self) -> int:
        """Pending requests, those that are scheduled for later included."""
        return self.pushed - self.leased - self.done

    @property
    def state(self) -> tuple[int, ...]:
        """The counts that change whenever a request is added, settled, left or due."""
        return self.pushed, self.slots, self.leased, self.left, self.later


class PartitionTotals(NamedTuple):
    """Counts of all requests that a partition ever had."""

    pushed: int
    """Requests that were ever accepted, and not removed by hand."""
    slots: int
    """Slots with pending requests."""
    leased: int
    """Requests in progress: handed out and not done."""
    done: int
    """Requests that are done."""
    failed: int
    """Failed requests, also those that are pending again."""
    keys: int
    """Keys in the filter."""
    later: int
    """Requests scheduled for later."""
    settled: Numbers
    """The counts with which requests were settled."""

    @property
    def pending(self) -> int:
        """Pending requests, those that are scheduled for later included."""
        return self.pushed - self.leased - self.done


class _Step(NamedTuple):
    """A step that only the owner may do: a script, its arguments, and its effects."""

    script: str
    arguments: tuple[bytes | str | int, ...]
    settles: tuple[bytes, ...] = ()
    again: tuple[str, ...] = ()
    failed: tuple[FailedRequest, ...] = ()
    totals: Numbers = MappingProxyType({})
    of_each: int = 0


class Partition:
    """The scripts of one partition, called by one worker.

    Most methods return talks, so that many partitions share a round trip: see
    :meth:`Server.at_once <bloomdupe.redis.server.Server.at_once>`. Only one talk at a
    time may be carried out.

    Every talk may be begun again after a
    :class:`~bloomdupe.errors.StoreUnreachableError`: if the step was done and only its
    answer was lost, it is not done a second time.
    """

    def __init__(
        self, number: int, server: Server, seen: RedisFilter, worker: str, *, fifo: bool
    ) -> None:
        self.number = number
        self.server = server
        self.seen = seen
        """Filter of the requests seen in this partition."""
        self._worker = worker
        self._kinds = ("b", "d") if fifo else ("a", "d")
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
        self.clock_ahead = 0.0
        """Seconds by which Redis' clock is ahead of this machine's clock."""
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

    def offer(self, offers: Sequence[Offer]) -> Talk[list[int]]:
        """Accept requests that are new; return the :class:`Taken` of each."""
        keys = [offer.fingerprint for offer in offers]
        words = [self._arguments(offer) for offer in offers]
        flags = yield from self.seen.each("offer", keys, words)
        answers = [flag - ord("0") for flag in flags]
        if Taken.NEW in answers:
            self.is_dry = False
        return answers

    def knows(self, marks: Sequence[SeenMark]) -> Talk[list[int]]:
        """Say of each mark whether it is set."""
        keys = [mark.fingerprint for mark in marks]
        flags = yield from self.seen.each("contains", keys)
        return [flag - ord("0") for flag in flags]

    def mark(self, marks: Sequence[SeenMark]) -> Talk[list[int]]:
        """Set marks; say of each whether it was new."""
        keys = [mark.fingerprint for mark in marks]
        flags = yield from self.seen.each("add", keys)
        return [flag - ord("0") for flag in flags]

    def _arguments(self, offer: Offer) -> tuple[bytes | str | int, ...]:
        kind = self._kinds[offer.start]
        if offer.bounds is not None:
            kind += ",{},{}".format(*offer.bounds)
        if offer.not_before is not None:
            kind += f"@{max(0, math.ceil(offer.not_before * 1000))}"
        priority = max(-PRIORITY_LIMIT, min(offer.priority, PRIORITY_LIMIT))
        return stored_slot(offer.slot), -priority, kind, offer.payload

    # Steps of the owner

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
        taken, work, since, now, failed, totals = answer
        if taken:
            self.work = work
            self.fence = fence
            self._step = 0
            self.failed.begin(failed)
            self._tally.begin(totals)
            self.is_dry = False
            self.clock_ahead = now / 1000 - time.time()
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
        """Settle requests, and store the lines of output of each.

        Requests that this worker has settled before are left out. Changes nothing if
        another worker is the owner.
        """
        yield from self._repeat()
        done = [one for one in done if one.lease.number in self.in_progress]
        if done:
            numbers = tuple(one.lease.number for one in done)
            instead = [offer for one in done for offer in one.instead]
            waiting = [word for offer in instead for word in self._arguments(offer)]
            lines = [line for one in done for line in one.lines]
            states = _states_of(done)
            failed = tuple(one.failed for one in done if one.failed is not None)
            changes: list[bytes | int] = [word for one in failed for word in one]
            totals = self._tally.plus(one.counts for one in done)
            arguments = (
                b"".join(numbers), len(instead), len(states) // 3, len(failed),
                len(totals), *waiting, *states, *changes, *packed_groups(totals),
                *lines,
            )  # fmt: skip
            step = _Step("settle", arguments, numbers, failed=failed, totals=totals)
            yield from self._do(step)
            if instead:
                self.is_dry = False

    def leave(self, left: Sequence[LeftRequest]) -> Talk[None]:
        """Leave requests that this worker will not settle.

        They are pending again when the partition is given back or taken by another
        worker. Changes nothing if another worker is the owner.
        """
        yield from self._repeat()
        words: list[bytes | str] = []
        for one in left:
            words += one.lease.number, one.payload, one.reason
        lines = [line for one in left for line in one.lines]
        numbers = tuple(one.lease.number for one in left)
        states = _states_of(left)
        arguments = (len(left), len(states) // 3, *words, *states, *lines)
        yield from self._do(_Step("leave", arguments, settles=numbers))

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

    # Its contents

    def counts(self) -> Talk[Counts]:
        """Count the requests in the partition."""
        answer = yield Call(self.server, "counts")
        pushed, slots, leased, done, worker, *left = answer
        return Counts(pushed, slots, leased, done, worker.decode(), *left)

    def totals(self) -> Talk[PartitionTotals]:
        """Count the requests in the partition, and read the counts of those settled."""
        answer = yield Call(self.server, "totals")
        answer[-1] = unpacked_groups(answer[-1])
        return PartitionTotals(*answer)

    def pending(self) -> Iterator[Pending]:
        """Yield the pending requests, slot by slot, the next request first.

        Requests in progress, or scheduled for later, are not included. No request may
        be handed out meanwhile.
        """
        for slot in self._portions("pending"):
            found = self._portions("pending", slot)
            for member, score in zip(found, found, strict=True):
                yield Pending(
                    slot.decode(),
                    -int(float(score)),
                    member[:1] in b"cd",
                    member[:1] in b"ac",
                    member[NUMBER_BYTES:],
                )

    def failures(self) -> Talk[list[StoredFailure]]:
        """Return the failed requests, in no order."""
        return read_failures(self.server, self.number)

    def trim_failures(self, most: int) -> Talk[None]:
        """Remove the oldest failed requests until there are so many; by any worker."""
        yield Call(self.server, "trim", (most,))

    def import_failures(self, failed: Sequence[StoredFailure]) -> Talk[None]:
        """Store failed requests, unless they are there."""
        words: list[bytes | int] = []
        for one in failed:
            words += one.key, one.times, +one.waiting, one.record
        yield Call(self.server, "import_failed", tuple(words))

    def drop(self, found: Sequence[tuple[OnRedis, bytes]]) -> Talk[int]:
        """Remove pending requests; return how many were pending still.

        With each comes the key of the failed request that it repeats, or nothing.
        """
        words: list[bytes | str] = []
        for one, failed in found:
            words += one.slot, one.member, failed
        dropped: int = yield Call(self.server, "drop", tuple(words))
        return dropped

    def requeue(self, failed: Sequence[tuple[StoredFailure, Offer]]) -> Talk[int]:
        """Make failed requests pending again; return how many were not before."""
        words: list[bytes | str | int] = []
        for one, offer in failed:
            words += one.key, one.times, *self._arguments(offer)
        requeued: int = yield Call(self.server, "requeue", tuple(words))
        return requeued

    def _portions(self, script: str, *arguments: bytes) -> Iterator[bytes]:
        first = 0
        while found := self.server.run(script, first, READ_AT_ONCE, *arguments):
            yield from found
            first += READ_AT_ONCE

    def outputs(self) -> Iterator[OutputLine]:
        """Yield the lines of output of all requests that are done, oldest first."""
        after = NO_ENTRY
        while entries := self.entries(after, ENTRIES_AT_ONCE):
            for number, worker, lines in entries:
                for line in lines:
                    yield OutputLine(self.number, number, worker, line)
            after = entries[-1].number

    def entries(self, after: bytes, count: int) -> list[OutputEntry]:
        """Return the first ``count`` entries of the output after the entry ``after``.

        Raises :class:`StoreError` if some of these entries were deleted, or if Redis
        has lost the entry ``after``.
        """
        deleted, there, found = self.server.run("output", after, count)
        if deleted and _place(after) < _place(deleted):
            raise StoreError(
                f"{self.server.address.shown}: lines of output are not there any more:"
                f" they were collected, and deleted before entry {deleted.decode()}."
                " They are where they were collected; go on there, or collect the rest"
                " into a new directory (--rest)"
            )
        if after != NO_ENTRY and not there:
            raise StoreError(
                f"{self.server.address.shown}: entry {after.decode()} of the output,"
                " which was collected, is not there any more: Redis has gone back to"
                " older data, or it was deleted. Requests that Redis has lost are done"
                " again, and its lines would be collected twice. If nothing was deleted"
                " after collecting, Redis has each line once: collect into a new"
                " directory. Else --rest collects there what Redis has, and some of it"
                " is in both"
            )
        return [self._entry(number, fields) for number, fields in found]

    def _entry(self, number: bytes, fields: list[bytes]) -> OutputEntry:
        if fields[0] != b"worker":
            raise StoreDamagedError(
                f"{self.server.address.shown}: entry {number.decode()} of the output"
                " is not as a worker writes it; another program writes to this key"
            )
        return OutputEntry(number, fields[1].decode(errors="replace"), fields[3::2])

    def forgotten(self) -> bytes:
        """Return the entry before which all were deleted, or ``NO_ENTRY``."""
        deleted, *_ = self.server.run("output", NO_ENTRY, 1)
        return deleted or NO_ENTRY

    def forget(self, before: bytes) -> int:
        """Delete the entries of the output before an entry; return their number."""
        gone = 0
        while some := self.server.run("forget", before, FORGOTTEN_AT_ONCE):
            gone += some
        return gone


def _states_of(
    some: Iterable[Settled | LeftRequest],
) -> tuple[bytes | str | int, ...]:
    """Return the words for the latest state of each slot."""
    latest = {one.about.slot: one.about for one in some if one.about is not None}
    return tuple(word for about in latest.values() for word in about.words)


def _place(number: bytes) -> tuple[int, ...]:
    """Return the number of an entry in a form that can be compared."""
    return tuple(map(int, number.split(b"-")))
