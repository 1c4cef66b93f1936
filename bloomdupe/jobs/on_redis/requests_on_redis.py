"""RequestsOnRedis: reads the requests of a shared crawl that are not done."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from bloomdupe.crawl.engines.on_redis.messages import (
    FAILED,
    ITEM,
    REQUESTS,
    message_of,
    taken_apart,
)
from bloomdupe.errors import UnserializableError
from bloomdupe.frontier.payload import url_of
from bloomdupe.jobs.selection import Selection
from bloomdupe.jobs.view import ListedItems, ListedRequest
from bloomdupe.redis.frontier_reader import FrontierReader
from bloomdupe.requests.layout import summary_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bloomdupe.redis.frontier_reader import OnRedis


class RequestsOnRedis:
    """Reads pending requests and requests in progress, and changes nothing.

    Goes partition by partition: slot by slot the pending requests, the next one first,
    then those that are scheduled for later, and the requests in progress. Memory holds
    the names of the slots of one partition and a megabyte of requests. Requests that
    move meanwhile may be missing, or come twice. With a pattern, requests that cannot
    be read are left out.
    """

    def __init__(self, url: str, selection: Selection = Selection()) -> None:  # noqa: B008 - it is frozen
        """Open the crawl that a URL names."""
        self._reader = FrontierReader.open(url)
        self._selection = selection

    def count(self) -> int | None:
        """Count them; None if that would take reading them."""
        if self._selection.slot is not None:
            return None
        return sum(one.pending + one.leased for one in self._reader.states())

    def __iter__(self) -> Iterator[ListedRequest | ListedItems]:
        try:
            for number in range(self._reader.partitions):
                for found in self._of(number):
                    if self._is_selected(one := _read(found)):
                        yield one
        finally:
            self._reader.close()

    def _of(self, partition: int) -> Iterator[OnRedis]:
        reader, slot = self._reader, self._selection.slot
        slots = [slot] if slot is not None else reader.slots(partition)
        yield from reader.pending_of(partition, sorted(slots))
        for one in chain(reader.later(partition), reader.handed_out(partition)):
            if slot in (None, one.slot):
                yield one

    def _is_selected(self, one: ListedRequest | ListedItems) -> bool:
        if isinstance(one, ListedItems) or one.problem is not None:
            return self._selection.pattern is None
        return self._selection.has(one.slot, one.url)


def _read(found: OnRedis) -> ListedRequest | ListedItems:
    slot, priority, _, payload, worker, *_ = found
    unread = f"{len(payload):,} bytes"
    try:
        message = message_of(payload)
        if message.kind == ITEM:
            lines = len(taken_apart(message.body))
            return ListedItems(slot, priority, lines, worker)
        if message.kind in REQUESTS:
            unread = url_of(message.body)
            request = summary_of(message.body)
            return ListedRequest(
                slot,
                request.method,
                request.url,
                priority,
                request.callback,
                found.not_before,
                worker=worker,
                payload=request.rest,
            )
        problem = f"it is of an unknown kind {message.kind!r}"
        if message.kind == FAILED:
            problem = "its end is not recorded yet: let a worker run for a moment"
    except UnserializableError as error:
        problem = str(error)
    except Exception as error:  # noqa: BLE001 - any damage is shown
        problem = f"it is no message of a worker ({type(error).__name__})"
    return ListedRequest(slot, "?", unread, priority, None, None, problem, worker)
