"""Frontier: what a crawl owes. Bytes in, bytes out; it survives anything."""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.format import (
    CHECKSUM_BYTES,
    FRONTIER_DATABASES,
    FRONTIER_FORMAT,
    request_key,
    request_record,
)
from bloomdupe.line import Entry, Line
from bloomdupe.rank import BEFORE_ALL, rank_of
from bloomdupe.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from bloomdupe.batch import Batch
    from bloomdupe.bloom import BloomFilter
    from bloomdupe.storage import Change, Store

__all__ = ["Frontier"]

RECORD = "frontier"
DIGEST_MODULUS = 1 << 64

MAX_FRESH = 2_500
"""Unwritten requests after which a checkpoint is due at once: it takes 15 ms then."""

MAX_LOADED = 20_000
"""Requests kept in memory, over all slots, when a checkpoint has written them."""

MAX_ATTACHED = 2_000
"""Requests that keep their attachment, which may be large, as long as they wait."""

MAX_HEAD = 512
"""The same for one slot."""


def _at_once(_slot: str, _under_way: int) -> float:
    return 0.0


class Frontier:
    """Pending and leased requests, and what has been seen.

    A request is *offered*: if its fingerprint is new, it is marked as seen and
    waits (*pending*), in the slot and with the priority it was given. *Leasing*
    hands out the next one; *settling* says that it is done, its children offered.
    A *checkpoint* writes everything that has changed in one transaction, marks
    included. What is leased stays in the store until the checkpoint that also
    holds its children; after a crash it is pending again. So in every state that
    the store is ever in, **what is seen is pending, leased or done**.

    The store is that of the filter ``seen``, which is the frontier's from now on;
    without one both live in memory. ``fifo`` takes the oldest request first,
    ``start_fifo`` the oldest start request. ``wait`` says how long a slot must
    wait, see :class:`bloomdupe.turns.Turns`. ``clock`` gives seconds.

    The record ``frontier`` of the store is a JSON object:

    ``format``    of slots, queue and payloads: :data:`bloomdupe.format.FRONTIER_FORMAT`
    ``requests``  number of requests in the store
    ``digest``    sum of their checksums modulo 2**64: with ``requests``, it finds
                  missing and outdated ones
    ``slots``     number of slots in the store
    ``sequence``  requests numbered so far
    ``numbered``  slots numbered so far
    """

    def __init__(
        self,
        seen: BloomFilter,
        *,
        fifo: bool = False,
        start_fifo: bool = True,
        wait: Callable[[str, int], float] = _at_once,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.seen = seen
        self._store = seen.share_store(self._hurry)
        self._fifo = fifo
        self._start_fifo = start_fifo
        self._clock = clock
        self._turns = Turns(wait)
        self._lines: dict[str, Line] = {}
        self._numbered = 0
        self._sequence = 0
        self.pending = 0
        """Requests that wait."""
        self.leased = 0
        """Requests handed out and not settled."""
        self.due = False
        """Whether a checkpoint should not wait."""
        self._stored = 0
        self._digest = 0
        self._slots = 0
        self._loaded = 0
        # Lines with requests in memory; those that came first were asked long ago.
        self._crowded: dict[Line, None] = {}
        self._attached: deque[Entry] = deque()
        # Since the last checkpoint:
        self._fresh: dict[Entry, None] = {}
        self._settled: list[Entry] = []
        if self._store is not None:
            self._store.make_room_for(*FRONTIER_DATABASES)
            self._recover(self._store)

    def _recover(self, store: Store) -> None:
        """Take up what the last checkpoint holds; leased requests are pending again."""
        with store.snapshot() as snapshot:
            record = snapshot.record(RECORD)
            if record is None:
                record = {
                    "requests": 0, "digest": 0, "slots": 0, "sequence": 0, "numbered": 0
                }  # fmt: skip
            snapshot.expect_entries("queue", record["requests"])
            snapshot.expect_entries("slots", record["slots"])
            for slot in snapshot.slots():
                line = Line(slot.number, slot.name, slot.requests)
                self._lines[slot.name] = line
                self._turns.join(line)
                self.pending += slot.requests
        if self.pending != record["requests"]:
            raise store.damaged(
                f"the slots account for {self.pending:,} requests, but"
                f" {record['requests']:,} were written"
            )
        self._stored = record["requests"]
        self._digest = record["digest"]
        self._slots = record["slots"]
        self._sequence = record["sequence"]
        self._numbered = record["numbered"]

    def _hurry(self) -> None:
        self.due = True

    # The life of a request

    def offer(
        self,
        fingerprint: bytes,
        slot: str,
        priority: int,
        payload: bytes,
        *,
        start: bool = False,
        force: bool = False,
        exact: bool = False,
    ) -> bool:
        """Take in a request unless it was seen; True if it was new.

        ``start`` marks a start request (see :func:`bloomdupe.rank.rank_of`),
        ``force`` takes it in whether it is new or not, ``exact`` is explained at
        :meth:`bloomdupe.BloomFilter.add`.
        """
        new = self.seen.add(fingerprint, exact=exact)
        if new or force:
            self.push(slot, priority, payload, start=start)
        return new

    def push(
        self,
        slot: str,
        priority: int,
        payload: bytes | None,
        *,
        start: bool = False,
        attachment: object = None,
    ) -> Entry:
        """Take in a request without asking whether it was seen.

        Without ``payload`` it lives in memory only. The ``attachment`` comes back
        with it, unless many others have come since.
        """
        line = self._lines.get(slot)
        if line is None:
            line = Line(self._numbered, slot)
            self._numbered += 1
            self._lines[slot] = line
        fifo = self._start_fifo if start else self._fifo
        rank = rank_of(priority, self._sequence, start=start, fifo=fifo)
        self._sequence += 1
        entry = Entry(line, rank, payload, attachment)
        if line.push(entry):
            self._loaded += 1
            self._crowded[line] = None
        self._turns.join(line)
        self.pending += 1
        if self._store is not None and payload is not None:
            self._fresh[entry] = None
            self._attached.append(entry)
            if len(self._fresh) >= MAX_FRESH:
                self.due = True
        return entry

    def pending_in(self, slot: str) -> int:
        """Count the requests that wait in a slot."""
        line = self._lines.get(slot)
        return 0 if line is None else line.pending

    def lease(self) -> Entry | None:
        """Hand out the next request, or None if none is ready."""
        line = self._turns.next(self._clock())
        if line is None:
            return None
        if not line.heap:
            self._loaded += line.refill(self._store)
            self._crowded[line] = None
        entry = line.pop()
        self._loaded -= 1
        if not line.pending:
            self._turns.leave(line)
        entry.active = True
        self._turns.took(line)
        self.pending -= 1
        self.leased += 1
        return entry

    def release(self, entry: Entry) -> None:
        """Say that a leased request does not keep its slot busy any more."""
        if entry.active:
            entry.active = False
            self._turns.freed(entry.line)

    def settle(self, entry: Entry) -> None:
        """Say that a leased request is done: its children have been offered."""
        self.release(entry)
        self.leased -= 1
        if entry.stored:
            self._settled.append(entry)
            return
        self._fresh.pop(entry, None)
        entry.line.forget(entry.rank)
        self._tidy(entry.line)

    def seconds_until_ready(self) -> float | None:
        """Return how long to wait until a slot is ready that was not so far."""
        alarm = self._turns.next_alarm()
        return None if alarm is None else max(0.0, alarm - self._clock())

    def _tidy(self, line: Line) -> None:
        """Forget a line that is empty; its slot gets another number next time."""
        if not (line.pending or line.stored or line.active or line.out):
            self._crowded.pop(line, None)
            if self._lines.get(line.name) is line:
                del self._lines[line.name]

    # Reaching the store

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return bool(self._fresh or self._settled or self.seen.changed)

    @property
    def store(self) -> Store | None:
        """What holds everything durable, if anything does."""
        return self._store

    def checkpoint(self, *others: Change) -> None:
        """Make everything durable in one transaction, ``others`` with it.

        If it fails, the last checkpoint stands, and the next one tries again.
        """
        if self._store is None:
            self.seen.checkpoint()
        elif others or self.changed:
            self._store.commit(self.seen.change(), self._change(), *others)
        self.due = False

    def verify(self) -> None:
        """Read every request in the store, as the last checkpoint left it.

        Raises :class:`~bloomdupe.errors.StoreDamagedError` for one that is damaged,
        missing or outdated. Takes about a second per million.
        """
        if self._store is None:
            return
        digest = 0
        with self._store.snapshot() as snapshot:
            for slot in snapshot.slots():
                count = 0
                for found in snapshot.requests(slot.number, BEFORE_ALL):
                    count += 1
                    digest += found.checksum
                if count != slot.requests:
                    raise self._store.damaged(
                        f"slot {slot.name!r} has {count:,} requests, but"
                        f" {slot.requests:,} were written"
                    )
        if digest % DIGEST_MODULUS != self._digest:
            raise self._store.damaged("the sum over all requests is wrong")

    def _change(self) -> _Change:
        """Work out the frontier's part of a checkpoint, and change nothing."""
        digest = self._digest
        growth: dict[Line, int] = {}
        puts: dict[int, list[tuple[bytes, bytes]]] = {}
        written = []
        for entry in self._fresh:
            line = entry.line
            payload = entry.payload
            assert payload is not None  # noqa: S101 - or it would not be fresh
            record = request_record(line.number, entry.rank, payload)
            checksum = int.from_bytes(record[1][:CHECKSUM_BYTES], "little")
            digest += checksum
            puts.setdefault(line.number, []).append(record)
            written.append((entry, checksum))
            growth[line] = growth.get(line, 0) + 1
        deletes = []
        for entry in self._settled:
            line = entry.line
            deletes.append(request_key(line.number, entry.rank))
            digest -= entry.checksum
            growth[line] = growth.get(line, 0) - 1
        # In the order of the keys: each page of the tree is touched once.
        puts = {number: sorted(puts[number]) for number in sorted(puts)}
        deletes.sort()
        slots = self._slots
        changed = []
        for line, difference in growth.items():
            if difference:
                stored = line.stored + difference
                slots += (stored > 0) - (line.stored > 0)
                changed.append((line.number, stored, line))
        changed.sort()
        state = {
            "format": FRONTIER_FORMAT,
            "requests": self._stored + len(written) - len(deletes),
            "digest": digest % DIGEST_MODULUS,
            "slots": slots,
            "sequence": self._sequence,
            "numbered": self._numbered,
        }
        return _Change(self, puts, deletes, changed, list(growth), state, written)

    def _written(self, change: _Change) -> None:
        """Take note that a checkpoint is durable."""
        for entry, checksum in change.written:
            entry.stored = True
            entry.checksum = checksum
        self._fresh.clear()
        for entry in self._settled:
            entry.line.forget(entry.rank)
        self._settled.clear()
        for _, stored, line in change.slots:
            line.stored = stored
        self._stored = change.record["requests"]
        self._digest = change.record["digest"]
        self._slots = change.record["slots"]
        self._relieve(change.lines)
        for line in change.lines:
            self._tidy(line)

    def _relieve(self, lines: list[Line]) -> None:
        """Keep the memory small, now that everything is on disk."""
        for line in lines:
            self._loaded -= line.relieve(MAX_HEAD)
        if self._loaded > MAX_LOADED:
            for line in list(self._crowded):
                del self._crowded[line]
                self._loaded -= line.relieve(0)
                if self._loaded <= MAX_LOADED // 2:
                    break
        attached = self._attached
        while len(attached) > MAX_ATTACHED:
            attached.popleft().attachment = None


class _Change(NamedTuple):
    """A frontier's part of a transaction (a :class:`bloomdupe.storage.Change`)."""

    frontier: Frontier
    puts: dict[int, list[tuple[bytes, bytes]]]
    """Records by number of their slot, all in order."""
    deletes: list[bytes]
    slots: list[tuple[int, int, Line]]
    """Number, requests that will be stored, line."""
    lines: list[Line]
    """All that have changed."""
    record: dict[str, Any]
    written: list[tuple[Entry, int]]
    """Entries that will be stored, and their checksums."""

    def write(self, batch: Batch) -> None:
        """Put it into a transaction."""
        batch.delete_requests(self.deletes)
        batch.put_requests(self.puts.values())
        batch.put_slots(
            (number, requests, line.name) for number, requests, line in self.slots
        )
        batch.count_requests(self.record["requests"], self.record["digest"])
        batch.put_record(RECORD, self.record)

    def done(self) -> None:
        """Take note that it is durable."""
        self.frontier._written(self)
