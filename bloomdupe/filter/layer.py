"""Layer: one sized filter inside a growing one, and how its pages reach the disk."""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass
from itertools import takewhile
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from bitarray import bitarray

from bloomdupe.filter.hashing import (
    DIGEST_BYTES,
    head_of_positions,
    page_hash,
    positions,
    tail_of_positions,
)
from bloomdupe.filter.sizing import PAGE_BITS, POSITIONS, Geometry
from bloomdupe.store.format import (
    CHECKSUM_BYTES,
    JOURNAL,
    JOURNAL_KEY,
    PAGE_BYTES,
    PAGE_KEY,
    PAGES,
    JournalEntry,
    journal_record,
    page_value,
)
from bloomdupe.store.participant import Part
from bloomdupe.store.progress import told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bloomdupe.store.batch import Batch
    from bloomdupe.store.store import Store

BEYOND = b"\xff" * (POSITIONS // 8 - PAGE_BYTES)
"""The positions past a page's end: always set, so they decide nothing."""


_each_digest = Struct(f"{DIGEST_BYTES}s").iter_unpack

MAX_SWEEP = 128
"""Pages (8 kB each) that one checkpoint writes at most."""

SAMPLED_PAGES = 1_024
"""Pages looked at for a layer's fill. All pages are alike, and so many hold 67
million bits: the standard error is below 0.01 percentage points."""

MIN_SWEEP = 8
"""Pages that are due before a checkpoint writes any: together they share the cost
of the B-tree pages above them."""

MIN_BACKLOG = 4_096
MAX_BACKLOG = 1_000_000


def backlog_limit(shape: Geometry) -> int:
    """Return how many digests of a layer the journal holds, about, at most."""
    return max(MIN_BACKLOG, min(shape.capacity // 10, MAX_BACKLOG))


class LayerState(NamedTuple):
    """State of a layer in a checkpoint, besides its pages."""

    capacity: int
    fpp: float
    hashes: int
    pages: int
    keys: int
    """Keys added."""
    swept: int
    """Pages that the sweep has passed since the layer began."""
    stored: int
    """Pages on disk."""

    @property
    def geometry(self) -> Geometry:
        """The layer's shape."""
        return Geometry(self.capacity, self.fpp, self.hashes, self.pages)


@dataclass(kw_only=True)
class LayerPart(Part):
    """A layer's part of a checkpoint."""

    entry: JournalEntry | None
    """The new digests, if there are any."""
    writes: list[tuple[int, bytes]]
    """Page numbers and values to store."""
    obsolete: list[int]
    """Sequence numbers of journal entries that the pages now cover."""
    state: LayerState


class Layer:
    """Pages of bits in memory, loaded from the store when first touched.

    **Journal and sweep.** A new key dirties a page of 8 kB for 4 bytes of news. So
    a checkpoint appends the new digests (16 bytes) to a journal, and a *sweep*
    goes round and round over the pages, like the hand of a clock, a few pages per
    checkpoint, and writes those that changed. The hand's speed follows the number
    of new keys: one round per :attr:`backlog_limit` of them. When it has gone
    round once since a journal entry was written, the entry's digests are all in
    stored pages, and the entry goes. So the journal never holds much more than
    ``backlog_limit`` digests, every transaction is small, and nothing stalls.
    """

    keeps_pages = True
    """Whether pages that were touched stay in memory."""

    def __init__(
        self, number: int, geometry: Geometry, store: Store | None = None
    ) -> None:
        self.number = number
        self.geometry = geometry
        self.pages: list[bitarray | None] = [None] * geometry.pages
        self.keys = 0
        """Keys added and durable."""
        self.pending: list[bytes] = []
        """Digests added since."""
        self.head = head_of_positions(geometry.hashes)
        self.tail = tail_of_positions(geometry.hashes)
        self.backlog_limit = backlog_limit(geometry)
        self._store = store
        self._unapplied: dict[int, bytes] = {}
        # Entries of the journal with digests of this layer: sequence, `swept`
        # when it was written, number of digests. Oldest first.
        self._journal: deque[tuple[int, int, int]] = deque()
        self.swept = 0
        self._stored = 0
        self._debt = 0.0
        """Pages that the sweep is behind."""
        # Checksum of each loaded page as it stands on disk; 0: not there.
        self._checksums = array("Q", bytes(8 * geometry.pages) if store else b"")

    def restore(self, state: LayerState) -> None:
        """Go on as the last checkpoint left the layer, no page loaded yet."""
        self.keys = state.keys
        self.swept = state.swept
        self._stored = state.stored

    def replay(self, entry: JournalEntry) -> None:
        """Read a journal entry of the store.

        Its digests are only sorted by page; they are applied when the page is first
        touched, so opening a huge layer does not load it.
        """
        pages = self.geometry.pages
        unapplied = self._unapplied
        for (first,) in _each_digest(entry.digests):
            page = page_hash(first) % pages
            unapplied[page] = unapplied.get(page, b"") + first
        self.journalled(entry)

    # Pages

    def page(self, number: int) -> bitarray:
        """Return a page, loading it when needed."""
        page = self.pages[number]
        if page is None:
            page = self.pages[number] = self._read(number)
            self._unapplied.pop(number, None)
        return page

    def load(self, number: int, first: bytes, where: list[int]) -> bitarray:  # noqa: ARG002
        """Return a page that is not in memory, to ask it about a key.

        ``first`` is the digest of the key, ``where`` its positions, which may be more
        than those of this layer. The page may answer for this key only.
        """
        return self.page(number)

    def peek(self, number: int) -> bitarray:
        """Return a page without keeping it in memory."""
        page = self.pages[number]
        return self._read(number) if page is None else page

    def _read(self, number: int) -> bitarray:
        page = bitarray(endian="little")
        value = b""
        if self._store is not None:
            with self._store.snapshot() as snapshot:
                key = PAGE_KEY.pack(self.number, number)
                value = bytes(snapshot.value(PAGES, key) or b"")
        if value:
            bits = value[CHECKSUM_BYTES:]
            self._checksums[number] = as_number(value)
        else:
            bits = bytes(PAGE_BYTES)
        # In one step: a bitarray that grows takes 6 % more than it needs.
        page.frombytes(bits + BEYOND)
        digests = self._unapplied.get(number, b"")
        for (first,) in _each_digest(digests):
            page[positions(first, self.geometry.hashes)] = 1
        return page

    def all_pages(self) -> Iterator[bitarray]:
        """Iterate over all pages without keeping them in memory."""
        return map(self.peek, range(len(self.pages)))

    def fill(self) -> float:
        """Share of the bits that are set, from at most 2,048 evenly spread pages."""
        total = len(self.pages)
        numbers = range(0, total, max(1, total // SAMPLED_PAGES))
        ones = sum(page.count(1, 0, PAGE_BITS) for page in map(self.peek, numbers))
        return float(ones / (len(numbers) * PAGE_BITS))

    def merge(self, other: Layer, other_keys: int) -> None:
        """Add everything that is in a layer of the same shape.

        How many keys both have in common is unknown: their number is estimated
        from the bits, within what is possible.
        """
        task = f"Joining layer {other.number} of a filter"
        pages = told(other.all_pages(), task, len(other.pages), "pages")
        for number, theirs in enumerate(pages):
            mine = self.page(number)
            mine |= theirs
        estimate = self.geometry.keys_for_fill(self.fill())
        least, most = max(self.keys, other_keys), self.keys + other_keys
        self.keys = round(max(least, min(most, estimate)))

    # Reaching the disk

    @property
    def state(self) -> LayerState:
        """State of the layer in a checkpoint."""
        shape = self.geometry
        return LayerState(
            shape.capacity,
            shape.fpp,
            shape.hashes,
            shape.pages,
            self.keys,
            self.swept,
            self._stored,
        )

    @property
    def backlog(self) -> int:
        """Entries of the journal with digests of this layer."""
        return len(self._journal)

    @property
    def journal_keys(self) -> int:
        """Digests of this layer in the journal."""
        return sum(count for _, _, count in self._journal)

    def prepare(
        self, sequence: int, new_keys: int, *, everything: bool = False
    ) -> LayerPart:
        """Return the layer's part of a checkpoint, and change nothing.

        ``sequence`` is the number of its journal entry. ``new_keys`` digests enter the
        journal now, in any layer; they set the pace of the sweep. ``everything`` goes
        on as fast as one transaction allows.
        """
        entry = None
        if self.pending:
            digests = b"".join(self.pending)
            entry = JournalEntry(sequence, self.number, self.swept, digests)
        total = len(self.pages)
        if everything:
            due = total
        else:
            due = int(self._debt + new_keys * total / self.backlog_limit)
            if due < min(MIN_SWEEP, total):
                due = 0
        writes: list[tuple[int, bytes]] = []
        stored = self._stored
        passed = 0
        for passed in range(1, min(due, total) + 1):
            number = (self.swept + passed - 1) % total
            value = self._changed(number)
            if value is None:
                continue
            stored += self._checksums[number] == 0
            writes.append((number, value))
            if len(writes) >= MAX_SWEEP:
                break
        swept = self.swept + passed
        obsolete = [
            sequence
            for sequence, _, _ in takewhile(
                lambda entry: swept - entry[1] >= total, self._journal
            )
        ]
        state = self.state._replace(
            keys=self.keys + len(self.pending),
            swept=swept,
            stored=stored,
        )
        part = LayerPart(entry=entry, writes=writes, obsolete=obsolete, state=state)
        part.write = lambda batch: self._write(part, batch)
        part.done = lambda: self._written(part, new_keys)
        return part

    def _write(self, part: LayerPart, batch: Batch) -> None:
        if part.entry is not None:
            batch.change(JOURNAL, [journal_record(part.entry)])
        pages = (
            (PAGE_KEY.pack(self.number, page), value[CHECKSUM_BYTES:])
            for page, value in part.writes
        )
        batch.change(PAGES, pages)
        batch.change(
            JOURNAL, ((JOURNAL_KEY.pack(gone), None) for gone in part.obsolete)
        )

    def _changed(self, number: int) -> bytes | None:
        """Return the value of a page if it differs from the stored one."""
        page = self.pages[number]
        if page is None:
            if number not in self._unapplied:
                return None
            page = self.page(number)
        return self._value_if_changed(number, page)

    def _value_if_changed(self, number: int, page: bitarray) -> bytes | None:
        value = page_value(self.number, number, memoryview(page))
        return None if as_number(value) == self._checksums[number] else value

    def _written(self, part: LayerPart, new_keys: int) -> None:
        """Mark a part as durable; keys that were added since stay pending."""
        due = self._debt + new_keys * len(self.pages) / self.backlog_limit
        self._debt = max(0.0, due - (part.state.swept - self.swept))
        for number, value in part.writes:
            self._checksums[number] = as_number(value)
        for _ in part.obsolete:
            self._journal.popleft()
        del self.pending[: part.state.keys - self.keys]
        self.restore(part.state)
        if part.entry is not None:
            self.journalled(part.entry)

    def count_pending(self) -> None:
        """Count the added keys as folded, where nothing is ever durable."""
        self.keys += len(self.pending)
        self.pending.clear()

    def journalled(self, entry: JournalEntry) -> None:
        """Record an entry that is now in the journal."""
        count = len(entry.digests) // DIGEST_BYTES
        self._journal.append((entry.sequence, entry.swept, count))

    def memory_bytes(self) -> int:
        """Bytes that the loaded pages take."""
        return sum(page.nbytes for page in self.pages if page is not None)


def as_number(value: bytes) -> int:
    """Return the checksum of a page's value as a number."""
    return int.from_bytes(value[:CHECKSUM_BYTES], "little")
