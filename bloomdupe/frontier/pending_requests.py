"""PendingRequest: reads the requests in a store without opening the job for a crawl.

The requests that a running crawl works on are among them: they stay in the store until
they are done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.frontier.slot_queue import BEFORE_ALL
from bloomdupe.store.format import DELAYED, QUEUE, due_of, unpacked
from bloomdupe.store.snapshot import READ_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

    from bloomdupe.store.format import StoredSlot
    from bloomdupe.store.store import Store

PORTION = 1_000
"""Requests, up to ``READ_BYTES``, that are read in one transaction of LMDB. During the
transaction a running crawl cannot reuse free pages."""


class PendingRequest(NamedTuple):
    """A request in the store."""

    slot: str
    key: bytes
    """Its rank in the slot, or among the delayed requests."""
    payload: bytes
    not_before: float | None = None
    """Unix time before which it is not handed out, if it is delayed."""

    @classmethod
    def of(cls, slot: StoredSlot, rank: bytes, value: bytes) -> Self:
        """Read a request as it is stored."""
        if slot.number != DELAYED:
            return cls(slot.name, rank, value)
        name, _, _, payload = unpacked(value)
        return cls(name, rank, payload, due_of(rank))


def pending_requests(
    store: Store, slot: str | None = None
) -> Iterator[list[PendingRequest]]:
    """Yield the requests in the store, a portion at a time, each as it is then.

    They come slot by slot, in the order of their turns. The delayed requests come last,
    in the order of their times. With a ``slot``, it yields only the requests of this
    slot. Memory does not grow with the requests. While a crawl runs, a request that it
    adds or acknowledges meanwhile may be missing or not. If none runs, requests that
    are missing are noticed.
    """
    with store.snapshot() as snapshot:
        begun, slots = snapshot.transaction, [*snapshot.slots()]
    if slot is not None:
        slots = [one for one in slots if one.name == slot or one.number == DELAYED]
    number, following = 0, iter(slots)
    current, after = next(following, None), BEFORE_ALL
    while current is not None:
        found: list[PendingRequest] = []
        size = 0
        with store.snapshot() as snapshot:
            while current and len(found) < PORTION and size < READ_BYTES:
                some, more = snapshot.next_requests(current.number, after, (), PORTION)
                found += (PendingRequest.of(current, *request) for request in some)
                size += sum(len(value) for _, value in some)
                if more:
                    after = some[-1][0]
                else:
                    current, after = next(following, None), BEFORE_ALL
        number += len(found)
        yield [one for one in found if slot in (None, one.slot)]
    with store.snapshot() as snapshot:
        # If a crawl has written meanwhile, nobody knows how many there should be.
        if snapshot.transaction == begun:
            snapshot.compare(QUEUE, number, sum(one.requests for one in slots))
