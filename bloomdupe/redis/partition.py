"""The values that go into a partition of a shared frontier, and come out of it."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bloomdupe.redis.settled.failed_requests import FailedRequest
    from bloomdupe.redis.settled.tally import Numbers

__all__ = [
    "NO_BOUND",
    "NO_ENTRY",
    "AboutSlot",
    "Counts",
    "Offer",
    "OutputEntry",
    "OutputLine",
    "RedisLease",
    "SeenMark",
    "Settled",
    "SlotBounds",
    "Taken",
    "is_start",
    "stored_slot",
]

MAX_SLOT_BYTES = 1_000
"""A page may link to a host with any name, though no such host can exist."""
SHOWN_OF_SLOT = 100
"""Characters."""
NO_BOUND = 2**53
PRIORITY_LIMIT = (1 << 63) - 1
"""A priority beyond it counts as this: a score of Redis is a double."""

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


def is_start(number: bytes) -> bool:
    """Whether a request has its turn after other requests of the same priority."""
    return number[:1] in b"cd"


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
    """The fingerprint of its page, if it is a duplicate of all other links there. None:
    it may pass though its page was seen.
    """
    bounds: SlotBounds | None = None
    """The limits of its slot; None: it is accepted in any case, and not counted."""
    not_before: float | None = None
    """Unix time by Redis' clock before which it is not handed out, if it has one. It
    is scheduled for later until then.
    """
    claimed_as: bytes | None = None
    """Only in the place of a settled request: the name of its claim to the key, the
    same whenever that request is done again. Of the requests with claims to a key only
    the first is accepted. None: it is accepted in any case.
    """

    def words(self, *, fifo: bool) -> tuple[bytes | str | int, ...]:
        """The arguments of the scripts: see ``offer.lua``."""
        kind = "d" if self.start else "b" if fifo else "a"
        if self.bounds is not None:
            kind += ",{},{}".format(*self.bounds)
        if self.not_before is not None:
            kind += f"@{max(0, math.ceil(self.not_before * 1000))}"
        priority = max(-PRIORITY_LIMIT, min(self.priority, PRIORITY_LIMIT))
        return stored_slot(self.slot), -priority, kind, self.payload


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
        start = is_start(self.number)
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
    """A request that is done, or that is ``left``: this worker will not settle it."""

    lease: RedisLease
    lines: Sequence[bytes] = ()
    """Its lines of output."""
    instead: Sequence[Offer] = ()
    """The requests that take its place in the same step, such as its retry: never is
    one of them pending together with it. They are not marked as seen, except for those
    with claims. If the slot of one belongs to another partition, it moves there before
    it is handed out.
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
    left: bytes | None = None
    """Its new payload if it is left. It is pending again when the partition is given
    back or taken by another worker.
    """
    reason: str = ""
    """The reason why it is set aside, if it is; kept until it is done."""
    is_ending: bool = False
    """Whether its worker is about to end, so that other workers wait for it."""


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


@dataclass(frozen=True)
class Counts:
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
    """Requests that a worker has set aside."""
    later: int
    """Requests scheduled for later."""
    milliseconds: int
    """Until the first of these is due."""

    @property
    def pending(self) -> int:
        """Pending requests, those that are scheduled for later included."""
        return self.pushed - self.leased - self.done
