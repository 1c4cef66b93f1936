"""SlotQueue: the pending requests of a slot; the next are in memory, the rest on disk.

The downloader limits concurrency and delay by slot; a slot is usually a host. The rank
of a request is its order in the slot, as 12 bytes. The smallest rank is first.

===== ============= =============================================================
bytes meaning       value (big-endian)
===== ============= =============================================================
6     priority      subtracted from 2**31 - 1, so that the highest is first
1 bit start request 1 for a start request that comes last, else 0
47    age           sequence, or, newest first, 2**47 - 1 - sequence
bits
===== ============= =============================================================

``sequence`` numbers all requests ever.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.store.format import RANK_BYTES

if TYPE_CHECKING:
    from collections import OrderedDict, deque
    from collections.abc import Callable, Container
    from typing import TypeAlias

    from bloomdupe.frontier.slot_state import SlotState
    from bloomdupe.store.store import Store

    Read: TypeAlias = "tuple[list[tuple[bytes, Entry]], bool]"

BEFORE_ALL = b""
"""Smaller than all ranks."""
AFTER_ALL = b"\xff" * 5
"""Larger than all ranks."""

HIGHEST = (1 << 31) - 1
"""A priority beyond counts as this one, or as its negative."""
LAST_SEQUENCE = (1 << 47) - 1

MIN_BATCH = 1
MAX_BATCH = 256
"""Requests read from disk at once: few at first, more from a slot that is emptied;
reading ends after ``READ_BYTES``."""

REQUEST_BYTES = 1_000
"""Most bytes that a request costs besides its payload, in memory and in a checkpoint.
So a bound in bytes also bounds the number of requests."""


class Entry:
    """A request in the frontier."""

    __slots__ = (
        "active",
        "attachment",
        "payload",
        "queue",
        "rank",
        "size",
        "stored",
        "turn",
        "volatile",
    )

    turn: tuple[str, int, bool]
    """Of a delayed request: its slot, its priority, and whether it is a start request.
    Until it is due, its rank is its due time and a number."""

    def __init__(
        self,
        queue: SlotQueue,
        rank: bytes,
        payload: bytes | None,
        attachment: object = None,
        *,
        stored: bool = False,
        volatile: bool = False,
    ) -> None:
        self.queue = queue
        self.rank = rank
        self.payload = payload
        """None: it cannot be stored, and lives in memory only."""
        self.size = REQUEST_BYTES + len(payload) if payload else REQUEST_BYTES
        """Bytes of the request in memory and in a checkpoint."""
        self.attachment = attachment
        """The attachment of :meth:`Frontier.push`; None after it was read from disk."""
        self.stored = stored
        """Whether the store has it, or the part that was prepared last."""
        self.active = False
        """Whether it keeps its slot busy."""
        self.volatile = volatile
        """Whether it is not to be written, until :meth:`Frontier.save` is called."""


@dataclass(slots=True, eq=False)
class SlotQueue:
    """Pending requests of one slot, by rank.

    All requests up to ``bound`` are in ``heap``. The requests above it are in the store
    only, except for ``beyond``: new requests that no checkpoint has written yet, and
    requests that are volatile or cannot be stored. A slot of which nothing is in memory
    has no such object: see :class:`bloomdupe.frontier.slots.Slots`.
    """

    number: int
    name: str
    stored: int = 0
    """Number of requests that the store has after the next checkpoint."""
    pending: int = field(init=False)
    """Number of pending requests, in memory and in the store."""
    heap: list[tuple[bytes, Entry]] = field(default_factory=list)
    loading: bool = False
    """Whether its next requests are being read on another thread."""
    beyond: list[tuple[bytes, Entry]] = field(default_factory=list)
    bound: bytes = AFTER_ALL
    out: set[bytes] = field(default_factory=set)
    """Ranks of in-flight and acknowledged requests that are still in the store, or may
    be there after the current or the next checkpoint."""
    batch: int = MIN_BATCH
    state: SlotState | None = None
    """What is remembered of the slot besides its requests."""
    slots: Any = None
    """The :class:`Slots` that it belongs to."""
    handed_out: float = 0.0
    """Time of the last request that was handed out, by the clock of the frontier."""
    # Of bloomdupe.frontier.rotation:
    active: int = 0
    ring: OrderedDict[SlotQueue, None] | deque[str] | None = None
    alarm: int = 0

    def __post_init__(self) -> None:
        self.pending = self.stored
        if self.stored:
            self.bound = BEFORE_ALL

    def push(self, entry: Entry) -> None:
        """Add a new request."""
        self.pending += 1
        item = (entry.rank, entry)
        if entry.rank > self.bound:
            self.beyond.append(item)
        else:
            heappush(self.heap, item)
            self.slots.partition.loaded += entry.size

    def pop(self) -> Entry:
        """Remove and return the next request, which must be in memory."""
        assert self.heap  # noqa: S101 - take_in() raises when nothing is there
        _, entry = heappop(self.heap)
        self.slots.partition.loaded -= entry.size
        self.pending -= 1
        self.out.add(entry.rank)
        return entry

    def reading(self) -> Callable[[], Read]:
        """Return a function that reads the next requests, maybe on another thread."""
        return partial(self._read, self._here())

    def _here(self) -> set[bytes]:
        """Return the ranks of requests that the store has, or may have, and are here.

        A commit in progress may have written those of ``beyond`` by now.
        """
        return self.out.union(rank for rank, _ in self.beyond)

    def take_in(self, read: Read) -> None:
        """Take in the requests that :meth:`reading` has read.

        Meanwhile requests may have come, and may have been written.
        """
        found, more = read
        here, beyond = self._here(), self.beyond
        self.batch = min(2 * self.batch, MAX_BATCH)
        self.bound = found[-1][0] if more else AFTER_ALL
        news = [item for item in found if item[0] not in here]
        news += [item for item in beyond if item[0] <= self.bound]
        self.beyond = [item for item in beyond if item[0] > self.bound]
        self.heap += news
        heapify(self.heap)
        if not (self.heap or more):
            raise self._store.now.damaged(
                f"{self.pending:,} pending requests of slot {self.name!r} are missing"
            )
        partition = self.slots.partition
        partition.evictable[self] = None
        partition.loaded += sum(entry.size for _, entry in news)

    @property
    def _store(self) -> Store:
        store: Store | None = self.slots.partition.store
        assert store is not None  # noqa: S101 - or all are in memory
        return store

    def _read(self, but: Container[bytes]) -> Read:
        """Read the next requests by rank, and whether there may be more."""
        now = self._store.now
        found, more = now.next_requests(self.number, self.bound, but, self.batch)
        return [(rank, self._read_entry(rank, value)) for rank, value in found], more

    def _read_entry(self, rank: bytes, value: bytes) -> Entry:
        return Entry(self, rank, value, stored=True)

    def stored_value(self, entry: Entry) -> bytes | None:
        """Return a request as it is stored."""
        return entry.payload

    # After a checkpoint, when everything that can be written is in the store

    def written(self) -> None:
        """Forget the requests above ``bound`` that are in the store by now."""
        if not self.loading:
            # Requests that are volatile or cannot be stored stay.
            self.beyond = [item for item in self.beyond if not item[1].stored]

    def relieve(self) -> None:
        """Keep nothing in memory that can be read again."""
        if not self.loading:
            items = self.beyond + self.heap
            self.slots.partition.loaded -= sum(entry.size for _, entry in self.heap)
            self.beyond = [item for item in items if not item[1].stored]
            self.heap, self.bound, self.batch = [], BEFORE_ALL, MIN_BATCH


NOWHERE = SlotQueue(0, "")
"""Queue of a request that is in no queue yet."""


class QueueOrder(NamedTuple):
    """The order within a slot."""

    fifo: bool = False
    """Whether the oldest request of a priority is first, else the newest."""
    start_fifo: bool = True
    """The same among start requests."""
    starts_apart: bool = True
    """Whether start requests come after all other requests of their priority."""

    def rank(self, priority: int, sequence: int, *, start: bool) -> bytes:
        """Return the rank of a request: the highest priority is first."""
        fifo = self.start_fifo if start else self.fifo
        order = sequence if fifo else LAST_SEQUENCE - sequence
        if not -HIGHEST <= priority <= HIGHEST:
            priority = HIGHEST if priority > 0 else -HIGHEST
        last = start and self.starts_apart
        return (((HIGHEST - priority) << 1 | last) << 47 | order).to_bytes(
            RANK_BYTES, "big"
        )
