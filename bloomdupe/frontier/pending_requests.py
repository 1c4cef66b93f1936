"""PendingRequest: reads the requests in a store without opening the job for a crawl.

The requests that a running crawl works on are among them: they stay in the store until
they are done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.frontier.slot_queue import BEFORE_ALL
from bloomdupe.store.format import DELAYED, QUEUE
from bloomdupe.store.snapshot import READ_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bloomdupe.store.store import Store

PORTION = 1_000
"""Requests, up to ``READ_BYTES``, that are read in one transaction of LMDB. During the
transaction a running crawl cannot reuse free pages."""


class PendingRequest(NamedTuple):
    """A request in the store."""

    slot: str
    key: bytes
    """Its rank in the slot; or its key in ``delayed``."""
    payload: bytes
    not_before: float | None = None
    """Unix time before which it is not handed out, if it is delayed."""


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
    yield from _in_slots(store, slot)
    yield from _scheduled(store, slot)


def _in_slots(store: Store, slot: str | None) -> Iterator[list[PendingRequest]]:
    with store.snapshot() as snapshot:
        begun, left = snapshot.transaction, snapshot.entries(QUEUE)
        chosen = [one for one in snapshot.slots() if slot in (None, one.name)]
    if slot is not None:
        left = sum(one.requests for one in chosen)
    slots = iter(chosen)
    current, after = next(slots, None), BEFORE_ALL
    while current is not None:
        found: list[PendingRequest] = []
        size = 0
        with store.snapshot() as snapshot:
            while current and len(found) < PORTION and size < READ_BYTES:
                some, more = snapshot.next_requests(current.number, after, (), PORTION)
                found += (PendingRequest(current.name, *request) for request in some)
                size += sum(len(payload) for _, payload in some)
                if more:
                    after = some[-1][0]
                else:
                    current, after = next(slots, None), BEFORE_ALL
        left -= len(found)
        yield found
    _expect_none(store, QUEUE, begun, left)


def _scheduled(store: Store, slot: str | None) -> Iterator[list[PendingRequest]]:
    with store.snapshot() as snapshot:
        begun, left = snapshot.transaction, snapshot.entries(DELAYED)
    after: bytes | None = b""
    while after is not None:
        with store.snapshot() as snapshot:
            items, more = snapshot.next_delayed(after, (), PORTION)
        left -= len(items)
        after = items[-1].key if more else None
        yield [
            PendingRequest(one.slot, one.key, one.payload, one.due)
            for one in items
            if slot in (None, one.slot)
        ]
    _expect_none(store, DELAYED, begun, left)


def _expect_none(store: Store, table: bytes, begun: object, left: int) -> None:
    """Refuse a table in which others than so many records were found.

    If a crawl has written meanwhile, nobody knows how many there should be.
    """
    with store.snapshot() as snapshot:
        if snapshot.transaction == begun:
            expected = snapshot.entries(table)
            snapshot.compare(table, expected - left, expected)
