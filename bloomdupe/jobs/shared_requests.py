"""SharedRequests: reads the requests of a shared crawl that are not done."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.crawl.requests.summary import summary_of
from bloomdupe.errors import UnserializableError
from bloomdupe.frontier.payload import url_of
from bloomdupe.redis.frontier_reader import FrontierReader
from bloomdupe.shared.names import ITEM, REQUEST, message_of, taken_apart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bloomdupe.crawl.requests.summary import Summary
    from bloomdupe.redis.frontier_reader import OnRedis

__all__ = ["SharedRequest", "SharedRequests"]


class SharedRequest(NamedTuple):
    """A request of a crawl on Redis; or items that belong to no request."""

    slot: str
    priority: int
    worker: str | None
    """The worker that processes it; None: it is pending."""
    request: Summary | None
    """None for items, and for a request that cannot be read."""
    lines: int
    """Lines of items that ``start()`` has yielded."""
    unread: str
    """A description of an unreadable request, such as its URL."""
    problem: str | None
    """The reason why it cannot be read."""


class SharedRequests:
    """Reads pending requests and requests in progress, and changes nothing.

    Goes partition by partition: slot by slot the pending requests, the next one first,
    then the requests in progress. Memory holds the names of the slots of one partition
    and a megabyte of requests. Requests that move meanwhile may be missing, or come
    twice.
    """

    def __init__(self, url: str, slot: str | None = None) -> None:
        """Open the crawl that a URL names; of one ``slot`` only, if it is given."""
        self._reader = FrontierReader.open(url)
        self._slot = slot

    def count(self) -> int | None:
        """Count them; None if that would take reading them."""
        if self._slot is not None:
            return None
        return sum(one.pending + one.leased for one in self._reader.states())

    def __iter__(self) -> Iterator[SharedRequest]:
        try:
            for number in range(self._reader.partitions):
                for found in self._of(number):
                    yield _read(found)
        finally:
            self._reader.close()

    def _of(self, partition: int) -> Iterator[OnRedis]:
        reader = self._reader
        slots = [self._slot] if self._slot is not None else reader.slots(partition)
        yield from reader.waiting(partition, sorted(slots))
        for one in reader.handed_out(partition):
            if self._slot in (None, one.slot):
                yield one


def _read(found: OnRedis) -> SharedRequest:
    slot, priority, payload, worker = found
    request, lines, unread, problem = None, 0, f"{len(payload):,} bytes", None
    try:
        message = message_of(payload)
        if message.kind == ITEM:
            lines = len(taken_apart(message.body))
        elif message.kind == REQUEST:
            unread = url_of(message.body)
            request = summary_of(message.body)
        else:
            problem = f"it is of an unknown kind {message.kind!r}"
    except UnserializableError as error:
        problem = str(error)
    except Exception as error:  # noqa: BLE001 - any damage
        problem = f"it is no message of a worker ({type(error).__name__})"
    return SharedRequest(slot, priority, worker, request, lines, unread, problem)
